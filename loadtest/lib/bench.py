"""The last `cargo bench`, as criterion left it: the bytes-to-bytes function against httparse alone."""

import json

from lib import paths

HEADS = ("curl", "guzzle", "browser")


def ratios():
    """{head: response time / httparse time}, for the heads that have been benchmarked."""
    found = {}
    for head in HEADS:
        ours, alone = _median(f"respond/can_vote/{head}"), _median(f"respond/httparse alone/{head}")
        if ours and alone:
            found[head] = ours / alone
    return found


def _median(name):
    """Nanoseconds, or None where there is no such benchmark."""
    estimates = paths.SERVICE_TARGET / "criterion" / name / "new" / "estimates.json"
    if not estimates.exists():
        return None
    return json.loads(estimates.read_text())["median"]["point_estimate"]
