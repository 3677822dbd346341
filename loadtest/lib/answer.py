"""Is what a competitor answers right? Asked before anything is timed."""

import http.client
import json
import re

from lib.competitor import COOLDOWN_PATH, PATH
from lib.process import Failed

CAN_VOTE = {
    "success": True,
    "can_vote": True,
    "message": "Vous pouvez voter maintenant",
    "next_vote_at": None,
    "cooldown_minutes": 90,
}
IN_COOLDOWN_MESSAGE = re.compile("Vous pourrez voter à nouveau dans (89|90) minutes")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def check(running, stateful):
    """Raises Failed unless the competitor answers both outcomes as the contract has them."""
    body = _ask(running, PATH)
    if body != CAN_VOTE:
        raise Failed(f"wrong answer to {PATH}: {body}")
    if stateful:
        _check_cooldown(_ask(running, COOLDOWN_PATH))


def _check_cooldown(body):
    wanted = {**CAN_VOTE, "success": False, "can_vote": False}
    message, instant = str(body.get("message")), str(body.get("next_vote_at"))
    right = {**body, "message": wanted["message"], "next_vote_at": None} == wanted
    if not (right and IN_COOLDOWN_MESSAGE.fullmatch(message) and INSTANT.fullmatch(instant)):
        raise Failed(f"wrong answer to {COOLDOWN_PATH}: {body}")


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
