"""The started competitors of one group: all of them wait on the server's CPU while one is timed."""

import contextlib

from lib import answer, process


class Fleet:
    """Use with `with`: a competitor that cannot start or answers wrong is noted in `failed`, and the others go on."""

    def __init__(self, entries, cpus, progress):
        self._entries = entries
        self._cpu = cpus[0]
        self._progress = progress
        self.running = []
        # What happened, in order, each with the label of the competitor.
        self.failed = []

    @contextlib.contextmanager
    def noting(self, label, what=""):
        """A failure inside is noted, and the run goes on behind it."""
        try:
            yield
        except (process.Failed, OSError) as error:
            self.failed.append(f"{label}: {what}{error}")

    def __enter__(self):
        for label, competitor, setup in self._entries:
            self._progress.say(f"starting {label}")
            before = process.started_count()
            with self.noting(label):
                started = competitor.start(label.replace(" ", "-"), setup, self._cpu)
                started.label, started.competitor = label, competitor
                answer.check(started, competitor.stateful)
                self.running.append(started)
            if not self.find(label):
                process.stop_since(before)
        return self

    def __exit__(self, *_):
        for started in self.running:
            started.stop()

    def find(self, label):
        """The running competitor of that label, or None."""
        return next((started for started in self.running if started.label == label), None)
