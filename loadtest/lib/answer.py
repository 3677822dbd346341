"""Checks whether a competitor answers right, before anything is timed."""

import http.client
import json
import math
import re
from datetime import datetime, timezone

from lib.competitor import COOLDOWN_PATH, PATH
from lib.process import Failed

CAN_VOTE = {
    "success": True,
    "can_vote": True,
    "message": "Vous pouvez voter maintenant",
    "next_vote_at": None,
    "cooldown_minutes": 90,
}
IN_COOLDOWN_MESSAGE = re.compile("Vous pourrez voter à nouveau dans ([0-9]+) minutes?")
INSTANT = "%Y-%m-%dT%H:%M:%SZ"


def check(running, stateful):
    """Raises Failed unless the competitor answers both outcomes as the contract has them."""
    body = _ask(running, PATH)
    if body != CAN_VOTE:
        raise Failed(f"wrong answer to {PATH}: {body}")
    if stateful:
        _check_cooldown(_ask(running, COOLDOWN_PATH))


def _check_cooldown(body):
    fault = cooldown_fault(body, datetime.now(timezone.utc))
    if fault:
        raise Failed(f"wrong answer to {COOLDOWN_PATH}, {fault}: {body}")


def cooldown_fault(body, now):
    """What is wrong with an answer about a cooldown, or None.

    A large table takes minutes to load, so the cooldown may be minutes old: the message has to agree
    with the instant, and the instant with the clock.
    """
    wanted = {**CAN_VOTE, "success": False, "can_vote": False, "message": None}
    if {**body, "message": None, "next_vote_at": None} != wanted:
        return "fields"
    message = IN_COOLDOWN_MESSAGE.fullmatch(str(body.get("message")))
    try:
        instant = datetime.strptime(str(body.get("next_vote_at")), INSTANT).replace(tzinfo=timezone.utc)
    except ValueError:
        return "no instant"
    left = (instant - now).total_seconds()
    if not 0 < left <= CAN_VOTE["cooldown_minutes"] * 60:
        return f"an instant that is {left:.0f} s away"
    # The answer is a moment older than `now`.
    if not message or int(message[1]) not in (math.ceil(left / 60), math.ceil((left + 1) / 60)):
        return "minutes that disagree with the instant"
    return None


def _ask(running, path):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"no answer to {path}: {error!r}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise Failed(f"status {response.status} for {path}: {text[:100]!r}")
    return json.loads(text)
