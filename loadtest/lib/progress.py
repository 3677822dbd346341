"""Where the run is, on standard error."""

import sys


class Progress:
    def __init__(self):
        self._said = ""

    def say(self, text):
        """A line for each part of a scenario; the competitor and the round are shown on a terminal alone."""
        part = " · ".join(text.split(" · ")[:2])
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{text[:150]}", end="", file=sys.stderr, flush=True)
        elif part != self._said:
            print(part, file=sys.stderr, flush=True)
        self._said = part

    def note(self, text):
        """A line that stays."""
        print(f"\n{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)
