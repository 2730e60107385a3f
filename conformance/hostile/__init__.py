"""Clients that mean no good, a file for each attack.

Each file has
    GROWTH_BYTES_MAX    by how much the node's memory may grow while it runs
    ANSWERS_MIN         answers that somebody else gets meanwhile; a short attack is repeated until then
    prepare(node)       what has to be there first: tables, rows, long statements. Its outcome goes to `attack`
    attack(node, made)  the attack, which may be repeated; raises AssertionError where the node does not answer as it should

What belongs to all of them is in `watch`: the settings of the node, the bystander (`bystander`, a process of its own), the node's
memory.
"""
from . import (before_startup, cache_capacity, dripping, in_products, incomplete_envelopes, prepared_flood,
               superlinear_literals, unread_answers)

# In the order of what they may take: memory that an allocator kept of an earlier one would hide what a later one takes.
ATTACKS = [before_startup, dripping, cache_capacity, prepared_flood, incomplete_envelopes, in_products, superlinear_literals,
           unread_answers]
