"""The started competitors of one group: all of them wait on the server's CPU while one is timed."""

from lib import answer, process, wrk
from lib.competitor import PATH


class Fleet:
    """Use with `with`: what cannot start or answers wrong is noted in `failed`, and the rest goes on."""

    def __init__(self, entries, cpus, progress):
        self._entries = entries
        self._cpu, self._load_cpu = cpus
        self._progress = progress
        self.running = []
        self.slow = set()
        # (label, what happened), in order
        self.failed = []

    def __enter__(self):
        for label, competitor, setup in self._entries:
            self._progress.say(f"starting {label}")
            before = process.started_count()
            try:
                started = competitor.start(label.replace(" ", "-"), setup, self._cpu)
                answer.check(started, competitor.stateful)
                if seconds := competitor.warm_up_seconds:
                    wrk.run(started.url + PATH, "head.lua", ("curl",), 64, seconds, self._load_cpu)
            except (process.Failed, OSError) as error:
                self.failed.append((label, str(error)))
                process.stop_since(before)
                continue
            started.label = label
            self.running.append(started)
            if competitor.slow:
                self.slow.add(label)
        return self

    def __exit__(self, *_):
        for started in self.running:
            started.stop()

    def find(self, label):
        """The running competitor of that label, or None."""
        return next((started for started in self.running if started.label == label), None)
