"""A good client: one kept connection that asks an ordinary question at a gentle, fixed rate."""

import multiprocessing
import time

from lib.propagation import Asker, status_request

# Ends a `probe` in another process that this one has forked.
ENOUGH = multiprocessing.Event()


def probe(port, rate, seconds):
    """(instant, seconds until its answer was read) of each question, for so long at most. One that was due before the
    answer to the one before it had come is counted from when it was due."""
    asker, request, took = Asker(port), status_request(28, "203.0.113.7"), []
    began = ended = time.perf_counter()
    for nth in range(int(rate * seconds)):
        if ENOUGH.is_set():
            break
        due = began + nth / rate
        is_late = due < ended
        time.sleep(max(0, due - time.perf_counter()))
        since = due if is_late else time.perf_counter()
        asker.send(request)
        status, body = asker.read()
        ended = time.perf_counter()
        if status != 200 or b'"can_vote":true' not in body:
            raise ValueError(f"{status} {body!r}")
        took.append((since, ended - since))
    return took
