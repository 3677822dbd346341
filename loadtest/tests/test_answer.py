"""The check of an answer about a cooldown, before anything is timed."""

import unittest
from datetime import datetime, timezone

from lib.answer import cooldown_fault

NOW = datetime(2026, 11, 20, 12, 0, 0, 500_000, tzinfo=timezone.utc)


def body(minutes, instant):
    return {
        "success": False,
        "can_vote": False,
        "message": f"Vous pourrez voter à nouveau dans {minutes} minutes",
        "next_vote_at": instant,
        "cooldown_minutes": 90,
    }


class Cooldown(unittest.TestCase):
    def test_a_cooldown_that_is_minutes_old_is_right(self):
        # Regression: loading ten million votes into a slow competitor took two minutes, and its answer was called wrong.
        self.assertIsNone(cooldown_fault(body(90, "2026-11-20T13:30:00Z"), NOW))
        self.assertIsNone(cooldown_fault(body(88, "2026-11-20T13:28:00Z"), NOW))

    def test_the_second_between_the_answer_and_the_look_is_allowed_for(self):
        self.assertIsNone(cooldown_fault(body(89, "2026-11-20T13:28:00Z"), NOW))
        self.assertIsNotNone(cooldown_fault(body(90, "2026-11-20T13:28:00Z"), NOW))
        self.assertIsNotNone(cooldown_fault(body(87, "2026-11-20T13:28:00Z"), NOW))

    def test_an_instant_is_within_the_cooldown(self):
        self.assertEqual(cooldown_fault(body(91, "2026-11-20T13:31:00Z"), NOW), "an instant that is 5460 s away")
        self.assertEqual(cooldown_fault(body(1, "2026-11-20T11:59:01Z"), NOW), "an instant that is -60 s away")
        self.assertEqual(cooldown_fault(body(1, "soon"), NOW), "no instant")

    def test_the_other_fields_are_as_they_are_asked_for(self):
        right = body(90, "2026-11-20T13:30:00Z")
        for name, wrong in (("can_vote", True), ("success", True), ("cooldown_minutes", 60)):
            self.assertEqual(cooldown_fault({**right, name: wrong}, NOW), "fields")
        self.assertEqual(cooldown_fault({**right, "error": "x"}, NOW), "fields")
