"""Connections that never begin a session: they send envelopes of 16 MiB without an end instead."""
from harness.frames import OPTIONS, STARTUP, Frames

from .watch import MIB, send_what_goes

GROWTH_BYTES_MAX = (20 + 30) * MIB
ANSWERS_MIN = 10
BODY_BYTES = 16 * MIB - 9


def prepare(_):
    return None


def attack(node, _):
    held = [Frames(node, version=4, begin=False) for _ in range(20)]
    pieces = [frames.envelope((OPTIONS, STARTUP)[at % 2], b"\x00" * (BODY_BYTES - 1), length=BODY_BYTES)
              for at, frames in enumerate(held)]
    send_what_goes([frames.socket for frames in held], pieces, 3)
    for frames in held:
        frames.socket.close()
    with Frames(node, version=4, begin=False) as frames:
        answer = frames.ask(OPTIONS, b"\x00" * (1 << 17))
        assert answer.code == 0x2200, answer
