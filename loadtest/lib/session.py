"""One whole run: groups in order, then what they gave, as one value for the report. Prints nothing."""

from lib import latency, machine, memory, plan, process, runner, target
from lib.fleet import Fleet
from lib.plan import OURS
from lib.table import Table


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
            "alone": [],
            "failures": [],
            "targets": [],
        }

    def run(self):
        """Every chosen scenario; the targets last."""
        with process.only_cpu(self._load_cpu):
            # This process casts votes and holds connections: it stays off the server's CPU.
            for group in plan.groups(self._options, self._competitors):
                self._group(group)
        for name in self._options.scenarios:
            if name in plan.ALONE:
                self._alone(name, *plan.ALONE[name])
        variants = {variant["key"]: variant["runs"] for variant in self.results["variants"]}
        self.results["targets"] = target.rows(variants, self.results["memory"], self._ratios)
        self.results["variants"].sort(key=lambda variant: plan.SCENARIOS.index(variant["scenario"]))

    def _group(self, group):
        with Fleet(group.entries, self._cpus, self._progress) as fleet:
            for variant in group.variants:
                runs = runner.time_variant(variant, fleet, self._options, self._load_cpu, self._progress)
                said = {"key": variant.key, "scenario": variant.scenario, "title": variant.title}
                self.results["variants"].append({**said, "runs": runs})
            if group.latency:
                latencies = latency.measure(fleet, self._options, OURS, self._load_cpu, self._progress)
                self.results["latency"] = latencies
            if group.idle:
                self._idle(fleet)
            if group.cooldowns:
                self._cooldowns(fleet)
            self.results["failures"] += fleet.failed

    def _alone(self, name, title, measure):
        self._progress.say(f"{name} · {title}")
        table, count = Table(), process.started_count()
        try:
            measure(self._options, table)
        except process.Missing as reason:
            self.results["missing"][name] = str(reason)
        except (process.Failed, OSError) as error:
            table.faults.append(f"{error!r}")
        process.stop_since(count)
        self.results["failures"] += [f"{name}: {fault}" for fault in table.faults]
        self.results["alone"].append({"scenario": name, "title": title, "rows": table.rows})

    def _idle(self, fleet):
        found = self.results["memory"].setdefault("idle", {})
        for started in fleet.running:
            self._progress.say(f"memory · idle connections · {started.label}")
            with fleet.noting(started.label, "idle connections: "):
                found[started.label] = memory.idle(started, self._options.connections)

    def _cooldowns(self, fleet):
        started = fleet.find(OURS)
        if not started:
            return
        count = self._options.cooldowns
        self._progress.say("memory · churn · vote-status")
        self.results["memory"]["cooldowns"] = memory.cooldowns(started, count)
        share = memory.QUICK_SHARE if self._options.quick else memory.HOUR_SHARE
        with fleet.noting(OURS, "churn: "):
            self.results["memory"]["churn"] = memory.churn(started, count, share, self._progress)
