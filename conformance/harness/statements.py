"""Statements that are drawn once and sent in every form: as text, or prepared, with what `value()` named bound to markers.

A statement under construction is a string in which each value stands between two characters of Unicode's private use area, so that it
is put together with f-strings; `Statement` reads it. A value may be spelled in two ways: of `c IN (1, 2)` the text is `(1, 2)`, and a
single marker in its place takes the list `[1, 2]`.
"""
import json
import re

from harness.types import encode, parse_literals
from harness.wire import bind_types

OPEN, AS_TEXT, CLOSE = "\ue000", "\ue001", "\ue002"
VALUE = re.compile(f"{OPEN}([^{AS_TEXT}]*){AS_TEXT}([^{CLOSE}]*){CLOSE}")


def value(literal, as_text=None):
    """A part of a statement that may be bound; values inside become a part of it."""
    bound_as = VALUE.sub(r"\1", str(literal))
    return f"{OPEN}{bound_as}{AS_TEXT}{plain(literal if as_text is None else as_text)}{CLOSE}"


def plain(drawn):
    """The text, with literals in it."""
    return VALUE.sub(r"\2", str(drawn))


def literal_of(drawn):
    """The literal of what is a value and nothing else, or None."""
    found = VALUE.fullmatch(drawn)
    return found and found[1]


class Statement:
    """One statement, in which `value()` says what may be bound."""

    def __init__(self, drawn):
        self.drawn = drawn

    def text(self):
        return plain(self.drawn)

    def marked(self):
        return VALUE.sub("?", self.drawn)

    def literals(self):
        return [literal for literal, _ in VALUE.findall(self.drawn)]

    def with_some_text(self, chance):
        """The statement, with some of its values in its text for good."""
        return Statement(VALUE.sub(lambda found: found[chance.choice((0, 2))], self.drawn))


def bound(prepared, literals):
    """Literals as bytes of the types that a node said of its markers; those of another type as bytes that are none of it."""
    return [value_bytes(kind, text) for (_, kind), text in zip(bind_types(prepared), literals, strict=True)]


def value_bytes(kind, text):
    (literal,) = parse_literals(text)
    try:
        return encode(kind, literal)
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError):
        return text.encode()


def as_json(text):
    """A CQL literal as JSON."""
    (literal,) = parse_literals(text)
    return json.dumps(_json(literal))


def _json(literal):
    if isinstance(literal, list):
        if literal and isinstance(literal[0], tuple):
            return {_json(key) if isinstance(_json(key), str) else key: _json(item) for key, item in literal}
        return [_json(item) for item in literal]
    if literal.startswith("'"):
        return literal[1:-1].replace("''", "'")
    try:
        return json.loads(literal)
    except ValueError:
        return literal
