"""Where the run is: one line rewritten in place on a terminal, a line per scenario elsewhere."""

import sys
import time


class Progress:
    def __init__(self, steps):
        self._steps = steps
        self._done = 0
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._said = ""

    def step(self, text):
        """One more of the counted steps begins."""
        self._done += 1
        left = ""
        if self._done > 3:
            each = (time.monotonic() - self._began) / (self._done - 1)
            left = f" · {self._clock(each * (self._steps - self._done + 1))} left"
        self._show(f"[{self._done}/{self._steps}] {text}{left}", text.rpartition(" · ")[0] or text)

    def say(self, text):
        """Something that is not counted."""
        self._show(text, text)

    def note(self, text):
        """A line that stays."""
        self._clear()
        print(text, file=sys.stderr, flush=True)

    def close(self):
        self._clear()

    def _show(self, line, short):
        if self._terminal:
            print(f"\r\x1b[2K{line[:150]}", end="", file=sys.stderr, flush=True)
        elif (words := short.split(" · ")[:2]) != self._said:
            self._said = words
            print(" · ".join(words), file=sys.stderr, flush=True)

    def _clear(self):
        if self._terminal:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    @staticmethod
    def _clock(seconds):
        minutes, rest = divmod(int(seconds), 60)
        return f"{minutes}:{rest:02d}"
