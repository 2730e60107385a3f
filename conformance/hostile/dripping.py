"""A byte now and then, so that no connection is ever quiet: before STARTUP, and in the middle of requests."""
from harness.frames import OPTIONS, QUERY, SUPPORTED, Frames, segment

from .watch import MIB, closed_after_drips

GROWTH_BYTES_MAX = 30 * MIB
ANSWERS_MIN = 100
# Far more than fit into the times that the node is told.
DRIPS, PAUSE_S = 100, 0.2


def prepare(_):
    return None


def attack(node, _):
    with Frames(node, version=4) as idle:
        silent = [Frames(node, version=4, begin=False) for _ in range(10)]
        for frames in silent:
            frames.socket.sendall(b"\x04\x00\x00\x01\x01\x00\x00\x10")
        begun = [Frames(node, version=4 + at % 2) for at in range(10)]
        for frames in begun:
            started = frames.envelope(QUERY, b"\x00" * 100, length=1 << 16)
            frames.socket.sendall(segment(started, False) if frames.segments else started)
            if frames.segments:
                # The header of the next segment; its payload drips.
                frames.socket.sendall(segment(b"\x00" * 1000, False)[:6])
        sockets = [frames.socket for frames in silent + begun]
        closed = closed_after_drips(sockets, b"\x00", DRIPS, PAUSE_S)
        assert closed == len(sockets), f"{closed} of {len(sockets)} connections were closed"
        assert idle.ask(OPTIONS, b"").opcode == SUPPORTED, "who is idle stays"
