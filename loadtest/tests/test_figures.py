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
        # The machine is half as fast in the second round: ratios of medians would say 1.5.
        self.assertEqual(figures.ratio(runs(10, 20, 10), [runs(5, 10, 20)], "cpu_us"), 2.0)

    def test_of_several_others_the_least_of_each_round_counts(self):
        self.assertEqual(figures.ratio(runs(8, 8), [runs(8, 2), runs(4, 4)], "cpu_us"), 3.0)

    def test_a_pooled_figure_weighs_runs_by_their_requests(self):
        made = [{"requests": 300, "user_us": 1.0}, {"requests": 100, "user_us": 5.0}]
        self.assertEqual(figures.pooled(made, "user_us"), 2.0)

    def test_rounds_that_only_one_side_has_are_left_out(self):
        self.assertEqual(figures.ratio(runs(6, 99, 99), [runs(3)], "cpu_us"), 2.0)
        self.assertIsNone(figures.ratio(runs(6), [[]], "cpu_us"))


class Targets(unittest.TestCase):
    def rows(self, variants, memory=None):
        return {row[0]: row[1:] for row in target.rows(variants, {}, memory or {}, {"curl": 1.2})}

    def test_measured_beside_target(self):
        rows = self.rows({"keep-alive-64-curl": {"vote-status": runs(10.4), "limit": runs(10)}})
        self.assertEqual(rows["CPU, keep-alive 64, against the epoll loop"], ("1.04 ×", "1.03 ×", False))
        self.assertTrue(rows["bytes to bytes against httparse, bare curl"][2])
        self.assertIsNone(rows["memory per live cooldown"][2])

    def test_the_worst_scenario_against_its_best_peer(self):
        variants = {
            "spread": {"vote-status": runs(9), "nginx": runs(12), "php-fpm": runs(10), "limit": runs(1)},
            "votes-beside": {"vote-status": runs(10), "php-fpm": runs(40)},
            "pipelined": {"vote-status": runs(9), "nginx": runs(1)},
        }
        rows = self.rows(variants)
        row = rows["CPU against the best peer, worst other scenario"]
        self.assertEqual(row, ("0.90 × (spread)", "0.98 ×", True))
        row = rows["user time against the best peer, worst other scenario"]
        self.assertEqual(row, ("0.90 × (spread)", "0.60 ×", False))


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
