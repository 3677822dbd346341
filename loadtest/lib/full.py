"""All connections are taken: the fate of clients that have just connected, of waiting requests, and of a vote. The
service has the first CPU, all clients have the second.
"""

import collections
import socket
import time

from lib import process
from lib.control import Control
from lib.crowd import SERVER, address
from lib.propagation import cast_request, status_request
from lib.service import Service

# A client at some distance asks this long after it has connected.
ROUND_TRIP_SECONDS = 0.03
ANSWER_SECONDS_MAX = 10
BURSTS = 18
DESCRIPTORS = 1024
NEWCOMERS = 300
PLACES, WAITS = 1_000, 900
SILENT_PER_SECOND, SILENT_SECONDS = 500, 4
# The machine may keep the service from its work for a moment: see STUCK_MS in src/limits.rs.
ENDED_MAX, ENDED_LATER_MAX = 1.2 * SILENT_PER_SECOND, 0.1 * SILENT_PER_SECOND
ENDED = 'vote_status_waits_total{outcome="ended"}'
HERE = "127.0.0.1"
# The addresses of a crowd, by the number of the connection.
CROWDS = (
    ("one address", lambda nth: "127.0.0.2"),
    ("the address of the waits", lambda nth: HERE),
    ("1,000 addresses", lambda nth: f"127.0.{2 + nth % 1_000 // 250}.{1 + nth % 250}"),
)
VOTES, SILENT_PER_PIECE, PIECES = 20, 5, 4


class Few(Service):
    """A service with few descriptors, and its other bounds as they follow from that."""

    def start(self):
        self._command = ["prlimit", f"--nofile={DESCRIPTORS}", *self._command]
        return super().start()


class Full:
    """A service and the connections to it, which are closed in the end."""

    def __init__(self, chosen, kind, *more):
        self.service = kind(chosen.binary, "full", more, process.cpus()[0], in_memory=True)
        self.service.control.put_server(SERVER)
        self._open = []

    def metric(self, name):
        """On a new connection: a kept one may have made room."""
        return int(Control(self.service.control_port, self.service.key).metric(name))

    def connect(self, source=HERE, port=None):
        client = socket.create_connection((HERE, port or self.service.port), ANSWER_SECONDS_MAX, (source, 0))
        self._open.append(client)
        return client

    def wait(self, count):
        for nth in range(count):
            request = status_request(SERVER, f"{address(nth)}?wait=50")
            self.connect().sendall(request)
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while self.metric("vote_status_waiting") < count:
            if time.monotonic() > deadline:
                raise process.Failed(f"{count} requests do not wait")

    def close(self):
        process.stop(self.service.process)
        for client in self._open:
            client.close()


def outcome(client, request):
    """The status of the answer, or how the connection failed."""
    try:
        client.sendall(request)
        answer = client.recv(65_536)
    except OSError as error:
        return type(error).__name__
    return answer[9:12].decode(errors="replace") if answer else "closed without an answer"


def burst(full, waits, newcomers):
    """How newcomers were answered that ask a round trip after they have connected."""
    full.wait(waits)
    clients = [full.connect() for _ in range(newcomers)]
    time.sleep(ROUND_TRIP_SECONDS)
    found = [outcome(client, status_request(SERVER, "203.0.113.7")) for client in clients]
    full.close()
    return found


def bursts(chosen, table):
    found = []
    for _ in range(2 if chosen.quick else BURSTS):
        options = "--workers", "1", "--max-connections", "40", "--max-waiting", "40"
        found += burst(Full(chosen, Service, *options), 30, 30)
    tell(found, "30 newcomers beside 30 waits in 40 places", table)
    full = Full(chosen, Few)
    waits = full.metric("vote_status_waiting_max")
    found = burst(full, waits, NEWCOMERS)
    tell(found, f"{NEWCOMERS} newcomers beside {waits} waits, {DESCRIPTORS:,} descriptors", table)


def tell(found, what, table):
    counts = ", ".join(f"{count} × {each}" for each, count in collections.Counter(found).items())
    table.add(f"answers to {what}", counts)
    table.expect_none(f"{what}: not answered 200", [each for each in found if each != "200"])


def silence(chosen, table):
    for crowd, source in CROWDS:
        full = Full(chosen, Service, "--workers", "1", "--max-connections", PLACES, "--max-waiting", PLACES)
        full.wait(WAITS)
        began, ended = time.monotonic(), []
        for nth in range(SILENT_PER_SECOND * SILENT_SECONDS):
            time.sleep(max(0, began + nth / SILENT_PER_SECOND - time.monotonic()))
            full.connect(source(nth))
            if (nth + 1) % SILENT_PER_SECOND == 0:
                ended.append(full.metric(ENDED))
        full.close()
        later = ended[-1] - ended[1]
        said = f"{ended[-1]} of {WAITS} ended, {later} of them after 2 s"
        met = ended[-1] <= ENDED_MAX and later <= ENDED_LATER_MAX
        asked = f"{ENDED_MAX:.0f}, and {ENDED_LATER_MAX:.0f}"
        table.add(f"{SILENT_PER_SECOND} silent connections/s from {crowd}", said, asked, met)


def votes(chosen, table):
    """A site on the same machine as a silent crowd sends the head of its vote in pieces."""
    full = Full(chosen, Few, "--workers", "1")
    control = full.service.control_port
    places = full.metric('vote_status_connections_max{listener="control"}')
    for _ in range(places):
        full.connect(port=control)
    found = []
    for nth in range(VOTES):
        request, site = cast_request(full.service.key, SERVER, address(nth)), full.connect(port=control)
        length = len(request) // PIECES
        for piece in range(PIECES - 1):
            site.sendall(request[piece * length : (piece + 1) * length])
            for _ in range(SILENT_PER_PIECE):
                full.connect(port=control)
        found.append(outcome(site, request[(PIECES - 1) * length :]))
    full.close()
    table.expect_none(f"votes among {places} silent connections of the site's machine: refused",
                      [each for each in found if each != "201"])


def measure(chosen, table):
    with process.only_cpu(process.cpus()[1]):
        for part in (bursts, silence, votes):
            part(chosen, table)
