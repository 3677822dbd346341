"""One whole run: groups in order, then what they gave, as one value for the report. Prints nothing."""

import dataclasses

from lib import latency, machine, memory, plan, runner, target
from lib.fleet import Fleet
from lib.plan import OURS


class Session:
    def __init__(self, options, competitors, missing, cpus, ratios, progress):
        self._options = options
        self._competitors = competitors
        self._progress = progress
        self._cpus = cpus
        self._ratios = ratios
        self._load_cpu = cpus[1]
        self.results = {
            "machine": machine.describe(),
            "options": {
                name: getattr(options, name) for name in ("quick", "seconds", "pairs", "cooldowns", "connections")
            },
            "titles": {**{each.name: each.title for each in competitors}, plan.SMALL: plan.SMALL},
            "missing": missing,
            "variants": [],
            "latency": {},
            "memory": {},
            "failures": [],
            "targets": [],
        }

    def run(self):
        """Every chosen scenario; the targets last."""
        for group in plan.groups(self._options, self._competitors):
            self._group(group)
        variants = {variant["key"]: variant["runs"] for variant in self.results["variants"]}
        latencies, memories = self.results["latency"], self.results["memory"]
        rows = target.rows(variants, latencies, memories, self._ratios, self._options.cooldowns)
        self.results["variants"].sort(key=lambda variant: variant["scenario"])
        self.results["targets"] = [{**dataclasses.asdict(row), "met": row.met} for row in rows]

    def _group(self, group):
        with Fleet(group.entries, self._cpus, self._progress) as fleet:
            for variant in group.variants:
                runs = runner.time_variant(variant, fleet, self._options, self._load_cpu, self._progress)
                said = {"key": variant.key, "scenario": variant.scenario, "title": variant.title}
                self.results["variants"].append({**said, "runs": runs, "left_out": group.left_out})
            if group.latency:
                latencies = latency.measure(fleet, self._options, OURS, self._load_cpu, self._progress)
                self.results["latency"] = latencies
            if group.idle:
                self._idle(fleet)
            if group.cooldowns:
                self._cooldowns(fleet)
            self.results["failures"] += fleet.failed

    def _idle(self, fleet):
        found = self.results["memory"].setdefault("idle", {})
        for started in fleet.running:
            self._progress.step(f"scenario 7 · idle connections · {started.label}")
            with fleet.noting(started.label, "idle connections: "):
                found[started.label] = memory.idle(started, self._options.connections)

    def _cooldowns(self, fleet):
        started = fleet.find(OURS)
        if not started:
            return
        count = self._options.cooldowns
        self._progress.step("scenario 7 · churn · vote-status")
        self.results["memory"]["cooldowns"] = memory.cooldowns(started, count)
        share = memory.QUICK_SHARE if self._options.quick else memory.HOUR_SHARE
        with fleet.noting(OURS, "churn: "):
            self.results["memory"]["churn"] = memory.churn(started, count, share, self._progress)
