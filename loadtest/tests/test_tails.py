"""The table of loadtest/tails on pairs made up here, and what pacer.c counts against a server that stalls."""

import pathlib
import socket
import tempfile
import threading
import time
import unittest
import xml.etree.ElementTree as xml

from lib import pacer, process, tails

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STALL_SECONDS = 1.6
# Half a second of them: the stall is in the time that counts, however late either side is started.
ANSWERED_BEFORE = 100


def pair(alone, beside):
    return {"p99": beside, "p99.9": 2 * beside, "lost": 0.01, "done": 1000.0, "alone": {"p99": alone, "p99.9": 2 * alone}}


class Table(unittest.TestCase):
    def test_a_ratio_is_taken_inside_each_pair(self):
        # The machine is half as fast in the second pair: a ratio of medians would say 1.5.
        row = tails.row("votes", "votes", [pair(100, 200), pair(200, 400), pair(100, 150)])
        self.assertEqual(row["p99"], {"alone": 100, "beside": 200, "ratio": 2.0, "least": 1.5, "most": 2.0})
        self.assertEqual(
            tails.cells(row),
            ["votes", "1,000 votes/s", "100 µs → 200 µs", "2.00 × (1.50 to 2.00) **missed**",
             "200 µs → 400 µs", "2.00 × (1.50 to 2.00)", "1.0%"],
        )

    def test_the_report_and_its_charts(self):
        machine = {"date": "d", "commit": "c", "virtual": True, "cpus": 2, "cpu": "x", "memory_mib": 1, "kernel": "k",
                   "system": "s", "load_average": 0.5}
        results = {"machine": machine, "pinned": True, "priority": True, "rate": 60_000, "cpu_share": 0.5, "pairs": 1,
                   "seconds": 4, "rows": [tails.row("a & b", "votes", [pair(100, 110)])]}
        with tempfile.TemporaryDirectory() as folder:
            tails.write(results, pathlib.Path(folder))
            report = (pathlib.Path(folder) / "report.md").read_text()
            for name in tails.GOALS:
                xml.parse(pathlib.Path(folder) / f"{name}.svg")
        self.assertIn("| a & b | 1,000 votes/s | 100 µs → 110 µs | 1.10 × (1.10 to 1.10) |", report)


class Pacer(unittest.TestCase):
    def test_a_stall_counts_for_every_request_that_was_due_meanwhile(self):
        pacer.build()
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, args=(listener,), daemon=True).start()
        found = pacer.finish(pacer.start(listener.getsockname()[1], 200, 2, process.EVERY_CPU, connections=1))
        # All that follows the one request that was answered late would be quick, had it waited for that answer.
        self.assertGreater(found["p50"], STALL_SECONDS / 8 * 1e6)
        self.assertGreater(found["max"], STALL_SECONDS * 0.9e6)

    @staticmethod
    def serve(listener):
        """Answers one connection, and once after a long while."""
        connection, _ = listener.accept()
        answered = 0
        while connection.recv(65536):
            if answered == ANSWERED_BEFORE:
                time.sleep(STALL_SECONDS)
            answered += 1
            connection.sendall(ANSWER)


if __name__ == "__main__":
    unittest.main()
