"""A terminal for programs that draw on one: a pty, and what a person would see on it.

It knows what `ilion top` may send: text, moves of the cursor, colours, clearing, modes. Anything else is an error, because a plain
terminal might show it.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import typing

class Style(typing.NamedTuple):
    """How a cell is drawn. A colour is a number of the 256 of terminals, (red, green, blue), or None for the terminal's own."""
    foreground: object = None
    background: object = None
    bold: bool = False
    dim: bool = False
    reversed: bool = False


# Codes that change one thing of a style.
STYLES = {1: {"bold": True}, 2: {"dim": True}, 7: {"reversed": True}, 22: {"bold": False, "dim": False}, 27: {"reversed": False},
          39: {"foreground": None}, 49: {"background": None}}
COMMAND = re.compile(rb"\x1b\[([?>]?)([0-9;:]*)([A-Za-z])")


class Terminal:
    def __init__(self, command, width=80, height=24, **environment):
        """Starts `command` on a terminal of its own. Variables that are None are unset."""
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.modes, self.colors, self.style = set(), set(), Style()
        self._size(width, height)
        kept = {name: value for name, value in os.environ.items()
                if name not in ("TERM", "COLORTERM", "NO_COLOR", "LINES", "COLUMNS")}
        kept.update({name: value for name, value in environment.items() if value is not None})
        self.process = subprocess.Popen([str(word) for word in command], stdin=slave, stdout=slave, stderr=slave, env=kept,
                                        start_new_session=True, close_fds=True)
        self.slave, self.pending = slave, b""

    def _size(self, width, height):
        self.width, self.height = width, height
        self.x = self.y = 0
        self._clear()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def _clear(self):
        self.cells = [[" "] * self.width for _ in range(self.height)]
        self.styles = [[Style()] * self.width for _ in range(self.height)]

    def resize(self, width, height):
        self._size(width, height)
        self.process.send_signal(signal.SIGWINCH)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def lines(self):
        return ["".join(line).rstrip() for line in self.cells]

    def wait_for(self, condition, timeout_s=60):
        """Reads until `condition(lines)` holds; the lines."""
        deadline = time.monotonic() + timeout_s
        while not condition(self.lines()):
            if time.monotonic() > deadline or not self._read(0.2):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError("not on the screen:\n" + "\n".join(self.lines()))
        return self.lines()

    def wait_for_text(self, *texts):
        return self.wait_for(lambda lines: all(any(text in line for line in lines) for text in texts))

    def end(self, timeout_s=30):
        """Waits until the program ends; its status."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            self._read(0.1)
        while self._read(0.1):
            pass
        return self.process.returncode

    def is_as_before(self):
        """Whether the terminal is in the modes it was in."""
        return termios.tcgetattr(self.slave) == self.before and not self.modes

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, timeout_s):
        """Takes what the program wrote; whether there was anything."""
        if not select.select([self.master], [], [], timeout_s)[0]:
            return False
        self.pending += os.read(self.master, 65536)
        while self.pending:
            taken = self._take(self.pending)
            if taken == 0:
                break
            self.pending = self.pending[taken:]
        return True

    def _take(self, data):
        """Carries out the first thing in `data`; how many bytes it was, 0 if some are missing."""
        if data[:1] == b"\x1b":
            command = COMMAND.match(data)
            if command is None:
                assert len(data) < 32, f"not a command of a plain terminal: {data[:32]!r}"
                return 0
            self._command(command[1].decode(), command[2].decode(), command[3].decode())
            return command.end()
        length = 1 + sum(data[0] >= limit for limit in (0xC0, 0xE0, 0xF0))
        if len(data) < length:
            return 0
        text = data[:length].decode()
        if text == "\r":
            self.x = 0
        elif text == "\n":
            self.y = min(self.y + 1, self.height - 1)
        else:
            assert text.isprintable(), f"not for a terminal: {text!r}"
            # What was drawn for another size may lie outside.
            if self.y < self.height and self.x < self.width:
                self.cells[self.y][self.x] = text
                self.styles[self.y][self.x] = self.style
            self.x += 1
        return length

    def _command(self, private, numbers, letter):
        values = [int(n or 0) for n in numbers.replace(":", ";").split(";")]
        if private == "?" and letter in "hl":
            for mode in values:
                # The cursor is shown by default, everything else is not.
                is_default = (letter == "h") == (mode == 25)
                (self.modes.discard if is_default else self.modes.add)(mode)
        elif letter == "H":
            self.y, self.x = max(values[0], 1) - 1, max((values + [1])[1], 1) - 1
        elif letter == "J" and values == [2]:
            self._clear()
        elif letter == "m":
            self._style(values)
        elif not (letter == "n" and values == [6]):
            raise AssertionError(f"not a command of a plain terminal: {private}{numbers}{letter}")

    def _style(self, values):
        while values:
            code = values.pop(0)
            if code == 0:
                self.style = Style()
            elif code in STYLES:
                self.style = self.style._replace(**STYLES[code])
            elif code in (38, 48):
                kind = values.pop(0)
                number = [values.pop(0) for _ in range({5: 1, 2: 3}[kind])]
                self._color(code == 48, number[0] if kind == 5 else tuple(number))
            elif 30 <= code <= 37 or 40 <= code <= 47:
                self._color(code >= 40, code % 10)
            elif 90 <= code <= 97 or 100 <= code <= 107:
                self._color(code >= 100, code % 10 + 8)

    def _color(self, is_background, color):
        self.style = self.style._replace(**{"background" if is_background else "foreground": color})
        self.colors.add("truecolor" if isinstance(color, tuple) else "256" if color > 15 else "16")
