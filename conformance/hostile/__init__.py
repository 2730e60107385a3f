"""Clients that mean no good, a file for each attack.

Each file has
    GROWTH_BYTES_MAX    by how much the node's memory may grow while it runs
    ANSWERS_MIN         answers that somebody else gets meanwhile
    prepare(node)       what has to be there first: tables, rows, long statements. Its outcome goes to `attack`
    attack(node, made)  the attack; raises AssertionError where the node does not answer as it should

What belongs to all of them is in `watch`: the settings of the node, the bystander, the node's memory.
"""
from . import (before_startup, cache_capacity, dripping, in_products, incomplete_envelopes, prepared_flood,
               superlinear_literals, unread_answers)

ATTACKS = [unread_answers, incomplete_envelopes, before_startup, dripping, prepared_flood, cache_capacity]
# What statements of a request's length may cost. A node that does not bound it yet fails these without failing the suite.
STATEMENTS = [in_products, superlinear_literals]
