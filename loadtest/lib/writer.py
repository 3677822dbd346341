"""Votes while reads are timed: one caller that casts at a fixed rate, each vote on its own."""

import threading
import time

from lib.control import Control
from lib.redis import Connection, vote_command

VOTES_PER_SECOND = 1000
_PLACES_PER_OCTET = 200


class Writer:
    """Casts from `with` to its end. A caller that falls behind casts as fast as it is answered."""

    def __init__(self, votes):
        self._cast = _caster(votes)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self.votes = 0
        self.seconds = 0.0
        self.error = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        began = time.monotonic()
        try:
            while not self._stop.is_set():
                self._cast(next(_ADDRESSES))
                self.votes += 1
                ahead = began + self.votes / VOTES_PER_SECOND - time.monotonic()
                if ahead > 0:
                    self._stop.wait(ahead)
        except Exception as error:  # any end of the caller belongs into the report, whatever it was
            self.error = repr(error)
        self.seconds = time.monotonic() - began


def _caster(votes):
    """A function that casts for one address of server 28 and returns once it was acknowledged."""
    if votes[0] == "control":
        control = Control(votes[1], votes[2])
        return lambda ip: control.vote(28, ip)
    store = Connection(votes[1])
    return lambda ip: store.send([vote_command(28, ip)])


def _fresh_addresses():
    """Addresses that no other part of the run uses, so that every vote is a new one."""
    number = 0
    while True:
        rest, last = divmod(number, _PLACES_PER_OCTET)
        second, third = divmod(rest, _PLACES_PER_OCTET)
        yield f"130.{second % _PLACES_PER_OCTET}.{third}.{last}"
        number += 1


_ADDRESSES = _fresh_addresses()
