"""The parts of `waiting` that compute: which answer is wrong, what is due when, whole answers out of pieces."""

import os
import socket
import unittest

from lib import usage
from lib.crowd import Loop, Vote, address

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
COOLDOWN = (
    '{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans 90 minutes",'
    '"next_vote_at":"2026-11-22T12:00:00Z","cooldown_minutes":90}'
).encode()
RECORDED = (
    b'HTTP/1.1 201 Created\r\n\r\n{"recorded":true,"server_id":28,"ip":"10.0.0.1","voted_at":"2026-11-22T10:30:00Z",'
    b'"next_vote_at":"2026-11-22T12:00:00Z"}'
)


class Faults(unittest.TestCase):
    def fault(self, answer, reply=RECORDED, told=1.0):
        vote = Vote()
        vote.reply, vote.answer, vote.told = reply, answer, told
        return vote.fault()

    def test_the_answer_is_the_cooldown_of_this_vote(self):
        self.assertIsNone(self.fault(HEAD + COOLDOWN))
        self.assertIn("was told", self.fault(HEAD + COOLDOWN.replace(b"12:00", b"12:01")))
        self.assertIn("was told", self.fault(HEAD.replace(b"200", b"503") + COOLDOWN))
        self.assertIn("was told", self.fault(HEAD + COOLDOWN.replace(b'"success":false', b'"success":true')))

    def test_a_waiter_is_told_and_a_vote_recorded(self):
        self.assertEqual(self.fault(b"", told=0.0), "a waiter was not told")
        self.assertIn("a vote was answered", self.fault(HEAD + COOLDOWN, b"HTTP/1.1 503 Service Unavailable\r\n\r\n{}"))

    def test_addresses_are_of_their_own(self):
        self.assertEqual(len({address(nth) for nth in range(100_000)}), 100_000)


class Turns(unittest.TestCase):
    def test_answers_come_whole(self):
        loop, answers = Loop(), []
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = loop.open(server.getsockname()[1], answers.append)
            other = server.accept()[0]
        for piece in (HEAD, COOLDOWN[:20], COOLDOWN[20:]):
            self.assertEqual(answers, [])
            other.sendall(piece)
            loop.run(lambda: answers, 0.01)
        self.assertTrue(loop.run(lambda: answers == [HEAD + COOLDOWN], 10))
        loop.close(client)
        other.close()

    def test_what_is_due_is_done_once_and_what_was_refused_again(self):
        loop, done, refused = Loop(), [], iter([False, False])

        def act(nth):
            # Several can be due in one turn, so the twentieth is the last by its count, not by the end of the turn.
            if next(refused, True) is False or len(done) == 20:
                return False
            done.append(nth)

        self.assertTrue(loop.run(lambda: len(done) == 20, 10, (1_000, act)))
        self.assertEqual(done, list(range(20)))
        self.assertFalse(loop.run(lambda: False, 0.01))


class Usage(unittest.TestCase):
    def test_time_that_was_run_is_counted_by_thread(self):
        before = usage.run_seconds([os.getpid()])
        self.assertGreater(sum(range(2_000_000)), 0)
        self.assertGreater(usage.run_seconds([os.getpid()]), before)
        self.assertEqual(usage.run_seconds([os.getpid()], "no such thread"), 0)
