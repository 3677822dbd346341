"""One whole run: groups in order, then what they gave, as one value for the report. Prints nothing."""

import dataclasses

from lib import latency, machine, memory, plan, process, runner, target
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
                "quick": options.quick,
                "seconds": options.seconds,
                "pairs": options.pairs,
                "cooldowns": options.cooldowns,
                "connections": options.connections,
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
                self._note_variant(variant, runs, group)
            if group.latency:
                self.results["latency"] = latency.measure(
                    fleet, self._options, OURS, self._load_cpu, self._progress
                )
            if group.idle:
                self._idle(fleet)
            if group.cooldowns:
                self._cooldowns(fleet)
            self.results["failures"] += [f"{label}: {text}" for label, text in fleet.failed]

    def _note_variant(self, variant, runs, group):
        self.results["variants"].append(
            {
                "key": variant.key,
                "scenario": variant.scenario,
                "title": variant.title,
                "runs": runs,
                "left_out": group.left_out,
            }
        )

    def _idle(self, fleet):
        found = self.results["memory"].setdefault("idle", {})
        for started in fleet.running:
            self._progress.step(f"scenario 7 · idle connections · {started.label}")
            try:
                found[started.label] = memory.idle(started, self._options.connections)
            except (process.Failed, OSError) as error:
                fleet.failed.append((started.label, f"idle connections: {error}"))

    def _cooldowns(self, fleet):
        started = fleet.find(OURS)
        if not started:
            return
        count = self._options.cooldowns
        self._progress.step("scenario 7 · churn · vote-status")
        self.results["memory"]["cooldowns"] = memory.cooldowns(started, count)
        try:
            share = memory.QUICK_SHARE if self._options.quick else memory.HOUR_SHARE
            self.results["memory"]["churn"] = memory.churn(started, count, share, self._progress)
        except (process.Failed, OSError) as error:
            fleet.failed.append((OURS, f"churn: {error}"))
