"""Requests of 16 MiB less a byte each, over two dozen connections, in envelopes and in segments."""
from harness.frames import QUERY, SEGMENT_BYTES_MAX, Frames, long_string, parameters, segment

from .watch import KEYSPACE, MIB, ask, send_what_goes

# What may come of requests from one address and of one that goes on without room, three times: buffers grow by doubling and are
# copied then. And a little for each connection, and what an allocator keeps.
GROWTH_BYTES_MAX = (3 * (16 + 16) + 10 + 44) * MIB
ANSWERS_MIN = 100
BODY_BYTES = 16 * MIB - 9


def unfinished(frames):
    envelope = frames.envelope(QUERY, b"\x00" * (BODY_BYTES - 1), length=BODY_BYTES)
    if not frames.segments:
        return envelope
    pieces = (envelope[at:at + SEGMENT_BYTES_MAX] for at in range(0, len(envelope), SEGMENT_BYTES_MAX))
    return b"".join(segment(piece, False) for piece in pieces)


def prepare(_):
    return None


def attack(node, _):
    held = [Frames(node, version=4 + at % 2) for at in range(24)]
    send_what_goes([frames.socket for frames in held], [unfinished(frames) for frames in held], 5)
    # A long request of somebody else is served when those are gone.
    for frames in held:
        frames.socket.close()
    long = f"SELECT v FROM {KEYSPACE}.calm /* {'x' * MIB} */ WHERE k = 1"
    answer = ask(node, long)
    assert answer.rows == [[b"calm"]], answer
    with Frames(node) as frames:
        answer = frames.ask(QUERY, long_string(long) + parameters(5))
        assert answer.rows == [[b"calm"]], answer
