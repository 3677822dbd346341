"""Ratios, targets and charts, on runs made up here."""

import unittest
import xml.etree.ElementTree as xml

from lib import chart, figures, target
from lib.usage import CpuTime, Memory


def runs(*microseconds):
    return [
        {"round": number, "requests": 100, "cpu_us": cpu, "user_us": cpu / 2}
        for number, cpu in enumerate(microseconds)
    ]


class Ratios(unittest.TestCase):
    def test_a_run_is_cpu_time_divided_by_requests(self):
        counted = {"requests": 200_000, "duration_us": 2e6, "errors": {"read": 0}, "latency_us": {"p50": 9.0}}
        run = figures.of_run(counted, CpuTime(0.4, 1.2), Memory(10, 5))
        self.assertEqual((run["user_us"], run["system_us"], round(run["cpu_us"], 6)), (2.0, 6.0, 8.0))
        self.assertEqual((run["requests_per_second"], run["cpu_share"], run["errors"]), (100_000, 0.8, {}))

    def test_a_ratio_is_taken_inside_each_round(self):
        # The machine is half as fast in the second round: a ratio of medians would say 1.5.
        self.assertEqual(figures.ratios(runs(10, 20, 10), [runs(5, 10, 20)], "cpu_us"), [2.0, 2.0, 0.5])

    def test_of_several_others_the_least_of_each_round_counts(self):
        self.assertEqual(figures.ratios(runs(8, 8), [runs(8, 2), runs(4, 4)], "cpu_us"), [2.0, 4.0])

    def test_a_pooled_figure_weighs_runs_by_their_requests(self):
        made = [{"requests": 300, "user_us": 1.0}, {"requests": 100, "user_us": 5.0}]
        self.assertEqual(figures.pooled(made, "user_us"), 2.0)

    def test_rounds_that_only_one_side_has_are_left_out(self):
        self.assertEqual(figures.ratios(runs(6, 99, 99), [runs(3)], "cpu_us"), [2.0])
        self.assertEqual(figures.ratios(runs(6), [[]], "cpu_us"), [])


class Targets(unittest.TestCase):
    def test_measured_beside_target(self):
        variants = {
            "keep-alive-64-curl": {"vote-status": runs(10.4, 9, 12), "limit": runs(10, 10, 10)},
            "new-connection": {"vote-status": runs(9), "nginx": runs(10)},
        }
        memory = {
            "idle": {"vote-status": {"rss_bytes_each": 241.0}},
            "cooldowns": {"rss_bytes_each": 27.5},
            "churn": {"share": 2 / 3, "rss_bytes_before": 200, "rss_bytes_after": 260},
        }
        self.assertEqual(
            target.rows(variants, memory, {"curl": 1.2}),
            [
                ("CPU, keep-alive 64, against the epoll loop", "1.04 × (0.90 to 1.20, 3 rounds)", "1.03 ×", False),
                ("CPU, new connection each, against the better of epoll loop and nginx",
                 "0.90 × (0.90 to 0.90, 1 rounds, without limit)", "1.00 ×", True),
                ("CPU, pipelined × 16, against the epoll loop", "not measured in this run", "1.10 ×", None),
                ("bytes to bytes against httparse, bare curl", "1.20 ×", "1.30 ×", True),
                ("bytes to bytes against httparse, other heads", "not measured in this run", "1.15 ×", None),
                ("memory per idle connection", "241.00 bytes", "240.00 bytes", False),
                ("memory per live cooldown", "27.50 bytes", "28.00 bytes", True),
                ("memory after churn, against before", "1.30 × (60 minutes' worth)", "1.25 ×", False),
            ],
        )


class Quantiles(unittest.TestCase):
    def test_a_quantile_is_of_what_came_in_between(self):
        infinite = float("inf")
        before, after = {0.1: 90, 1.0: 100, infinite: 100}, {0.1: 91, 1.0: 198, infinite: 200}
        self.assertEqual([figures.quantile(before, after, share) for share in (0.01, 0.5, 0.99, 1)], [0.1, 1.0, 1.0, 1.0])


class Charts(unittest.TestCase):
    def test_a_chart_is_xml_and_a_long_bar_is_cut(self):
        bars = [
            chart.Bar("vote-status", [1.0, 4.0], 4.5, 5.5, "5 µs", ours=True),
            chart.Bar("a & b", [50.0, 50.0], 99.0, 101.0, "100 µs"),
        ]
        drawn = xml.fromstring(chart.svg("<t>", "s", bars, [("user", "user time")]))
        space = "{http://www.w3.org/2000/svg}"
        widths = [
            float(each.get("width")) for each in drawn.iter(f"{space}rect") if each.get("height") == "18"
        ]
        # 390 units are six times 5 µs; the long bar takes all of them, half for each of its parts.
        self.assertEqual(widths, [13.0, 52.0, 195.0, 195.0])
        cut = [each for each in drawn.iter(f"{space}line") if each.get("class") == "cut"]
        self.assertEqual(len(cut), 1)
        self.assertIn("a & b", [each.text for each in drawn.iter(f"{space}text")])

    def test_a_chart_of_nothing_but_zeros_is_drawn(self):
        xml.fromstring(chart.svg("t", "s", [chart.Bar("limit", [0.0], 0.0, 0.0, "0 bytes")], []))
