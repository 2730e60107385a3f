"""Reads one row again and again until its input ends: `bystander.py ADDRESS PORT`, a process of its own.

Whoever attacks from the same process would hold it up (its interpreter runs one thread at a time), and that would pass for the node's
doing. For each answer it writes a line: how many seconds it took, and what it was if it was not the row.
"""
import pathlib
import select
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness.frames import QUERY, Frames, long_string, parameters  # noqa: E402
from harness.node import Remote  # noqa: E402

STATEMENT = "SELECT v FROM hostile.calm WHERE k = 1"
PAUSE_S = 0.002


def main():
    request = long_string(STATEMENT) + parameters(4)
    with Frames(Remote(sys.argv[1], int(sys.argv[2])), version=4) as frames:
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            begun = time.monotonic()
            answer = frames.ask(QUERY, request)
            took_s = time.monotonic() - begun
            print(took_s, "" if answer.rows == [[b"calm"]] else repr(answer), flush=True)


if __name__ == "__main__":
    main()
