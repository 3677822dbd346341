"""The rows of the tails on pairs made up here, and what pacer.c counts against a server that stalls."""

import socket
import threading
import time
import unittest

from lib import pacer, process, tails
from lib.table import Table

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STALL_SECONDS = 1.6
# Half a second of requests, so that the stall is in the measured time, however late either side starts.
ANSWERED_BEFORE = 100


def pair(alone, beside):
    return {"p99": beside, "p99.9": 2 * beside, "waited": 9, "lost": 0.01, "done": 1000.0, "alone": {"p99": alone, "p99.9": 2 * alone, "waited": 7}}


class Rows(unittest.TestCase):
    def test_a_ratio_is_taken_inside_each_pair(self):
        # The machine is half as fast in the second pair: a ratio of medians would say 1.5.
        rows = Table()
        tails.tell("votes", "votes", [pair(100, 200), pair(200, 400), pair(100, 150)], rows)
        measured = "p99 100 µs → 200 µs, 2.00 × (1.50 to 2.00); p99.9 200 µs → 400 µs, 2.00 × (1.50 to 2.00); the worker waits 7 → 9 µs for its CPU; 1.0% lost"
        self.assertEqual(rows.rows, [("votes, 1,000 votes/s", measured, "1.5 ×, 3.0 ×", False)])


class Pacer(unittest.TestCase):
    def test_a_stall_counts_for_every_request_that_was_due_meanwhile(self):
        pacer.build()
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, args=(listener,), daemon=True).start()
        found = pacer.finish(pacer.start(listener.getsockname()[1], 200, 2, process.EVERY_CPU, prefix=pacer.priority(), connections=1))
        # If requests waited for the one late answer before them, all of them would be quick. On a busy machine few requests are
        # due in the stall, but never one alone.
        self.assertGreater(found["p99"], STALL_SECONDS / 8 * 1e6)
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
