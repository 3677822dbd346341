"""Where the run is: one line rewritten in place on a terminal, a line per scenario elsewhere."""

import sys
import time


class Progress:
    def __init__(self, steps):
        self._steps, self._done, self._began = steps, 0, time.monotonic()
        # What begins a line on a terminal: back to its first column, and clear it.
        self._clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
        self._said = ""

    def step(self, text):
        """One more of the counted steps begins."""
        self._done += 1
        left = ""
        if self._done > 3:
            each = (time.monotonic() - self._began) / (self._done - 1)
            minutes, seconds = divmod(int(each * (self._steps - self._done + 1)), 60)
            left = f" · {minutes}:{seconds:02d} left"
        self._show(f"[{self._done}/{self._steps}] {text}{left}", text)

    def say(self, text):
        """Something that is not counted."""
        self._show(text, text)

    def note(self, text):
        """A line that stays."""
        print(f"{self._clear}{text}", file=sys.stderr, flush=True)

    def close(self):
        print(self._clear, end="", file=sys.stderr, flush=True)

    def _show(self, line, text):
        scenario = " · ".join(text.split(" · ")[:2])
        if self._clear:
            print(f"{self._clear}{line[:150]}", end="", file=sys.stderr, flush=True)
        elif scenario != self._said:
            self._said = scenario
            self.note(scenario)
