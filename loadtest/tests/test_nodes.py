"""The parts of `nodes` that compute: percentiles, questions, what counts as a wrong answer."""

import threading
import time
import unittest

from lib import redis, votes
from lib.front import LATE_SECONDS_MAX, Traffic
from lib.propagation import cast_request, percentile, status_request


class Percentiles(unittest.TestCase):
    def test_of_a_hundred(self):
        took = list(range(1, 101))
        self.assertEqual(percentile(took, 50), 51)
        self.assertEqual(percentile(took, 99), 100)
        self.assertEqual(percentile([7], 99), 7)


class Requests(unittest.TestCase):
    def test_a_vote_carries_its_length(self):
        request = cast_request("key", 28, "192.0.2.1")
        head, _, body = request.partition(b"\r\n\r\n")
        self.assertEqual(body, b'{"server_id": 28, "ip": "192.0.2.1"}')
        self.assertIn(b"Content-Length: %d" % len(body), head)
        self.assertTrue(status_request(28, "192.0.2.1").startswith(b"GET /api/vote/28/status/192.0.2.1 HTTP/1.1\r\n"))

    def test_commands_of_redis(self):
        self.assertEqual(redis.command("SET", "a", 12), b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n12\r\n")

    def test_paced_votes_are_all_of_their_own(self):
        lines = [votes.line(nth) for nth in range(100_000)]
        self.assertEqual(len(set(lines)), 100_000)
        self.assertEqual(lines[1], '{"server_id":29,"ip":"11.0.0.1"}\n')


class Judgement(unittest.TestCase):
    def judge(self, status, body, expected, since=0):
        traffic = Traffic.__new__(Traffic)
        traffic.wrong, traffic.failed, traffic.late, traffic.latest = [], [], 0, 0.0
        traffic._lock = threading.Lock()
        traffic._judge(status, body, expected, since)
        return len(traffic.wrong), len(traffic.failed), traffic.late

    def test_what_is_wrong_failed_or_late(self):
        can, cannot = b'{"can_vote":true}', b'{"can_vote":false}'
        self.assertEqual(self.judge(200, can, True), (0, 0, 0))
        self.assertEqual(self.judge(200, cannot, False), (0, 0, 0))
        self.assertEqual(self.judge(200, cannot, True), (1, 0, 0))
        self.assertEqual(self.judge(200, can, False), (1, 0, 0))
        self.assertEqual(self.judge(503, can, True), (0, 1, 0))
        now = time.monotonic()
        self.assertEqual(self.judge(200, can, False, now), (0, 0, 1))
        self.assertEqual(self.judge(200, can, False, now - LATE_SECONDS_MAX - 1), (1, 0, 0))
