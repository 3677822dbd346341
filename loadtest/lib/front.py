"""HAProxy in front of nodes, and clients that know what the right answer is."""

import threading
import time

from lib import paths, process
from lib.propagation import Asker, cast_request, status_request

CONFIGURATION = """\
global
    maxconn 4096
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 5s
    # Where a node dies in the middle of a read, another one is asked: to read twice does no harm.
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response response-timeout 503
frontend public
    bind 127.0.0.1:{public}
    default_backend nodes
backend nodes
    balance leastconn
    option httpchk GET /readyz
{nodes}
frontend control
    bind 127.0.0.1:{control}
    default_backend control
backend control
    balance roundrobin
    # A vote may be sent twice: the second is answered 409 where the first one counted.
    option httpchk GET /readyz
    retry-on conn-failure
{controls}
"""
# A node may show another node's vote a little later: by milliseconds, or, where the primary died just then, once the
# Sentinels have elected another one. They wait for 1 s before they do. A node that does not show an older vote is
# wrong.
LATE_SECONDS_MAX = 5.0


class Front:
    """A running HAProxy."""

    def __init__(self, nodes):
        self.port, self.control_port, folder = process.free_port(), process.free_port(), paths.fresh("haproxy")

        def servers(port_of):
            # Two failed checks take a node out: one late answer does not.
            check = "check inter 200ms fall 2 rise 1 port"
            return "\n".join(
                f"    server node{nth} 127.0.0.1:{port_of(node)} {check} {node.control_port}"
                for nth, node in enumerate(nodes)
            )

        text = CONFIGURATION.format(
            public=self.port,
            control=self.control_port,
            nodes=servers(lambda node: node.port),
            controls=servers(lambda node: node.control_port),
        )
        file, log = folder / "haproxy.cfg", folder / "haproxy.log"
        file.write_text(text)
        self.process = process.spawn(["haproxy", "-db", "-f", file], process.EVERY_CPU, log)
        process.wait_for_port(self.process, self.port, log)


class Traffic:
    """Readers and a caster at work, and what they saw. `recorded` are votes from before, which every answer has to show;
    `never` are addresses without one; `kept` says of each reader whether it keeps its connection."""

    def __init__(self, front, key, recorded, never, kept=(True,) * 4):
        self._front, self._key = front, key
        self._recorded, self._never = recorded, never
        self._stop, self._lock = threading.Event(), threading.Lock()
        self.reads = self.casts = self.late = 0
        # The age of the oldest vote that a node did not show yet, and the longest from connecting to a whole answer.
        self.latest = self.longest = 0.0
        # Wrong answers, failures of connections, and refused votes.
        self.wrong, self.failed, self.refused = [], [], []
        self._fresh = []
        work = [lambda each=each: self._read(*each) for each in enumerate(kept)] + [self._cast]
        self._threads = [threading.Thread(target=self._guard, args=(each,)) for each in work]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def longest_without_vote(self):
        """Seconds between two votes that were taken."""
        instants = [since for _, _, since in self._fresh]
        return max((after - before for before, after in zip(instants, instants[1:])), default=float("inf"))

    def forgotten(self, nodes):
        """Votes that were acknowledged and that a node does not show in the end; each is asked of one of them."""
        askers = [Asker(node.port) for node in nodes]
        found = []
        for nth, (server, ip, _) in enumerate(self._fresh):
            asker = askers[nth % len(askers)]
            asker.send(status_request(server, ip))
            status, body = asker.read()
            if status != 200 or b'"can_vote":false' not in body:
                found.append(f"{status} {body[:120]!r} for {server} and {ip}")
        return found

    def _guard(self, work):
        """A thread that ends with an exception is a failure of the run."""
        try:
            work()
        except Exception as error:
            self.failed.append(f"a reader or caster ended: {error!r}")
            raise

    def _read(self, offset, is_kept):
        """Asks for votes that were recorded, for addresses without one, and for votes that were cast just now."""
        asker, nth = None, offset
        while not self._stop.is_set():
            nth += 1
            server, ip, expected, since = self._question(nth)
            began = time.monotonic()
            try:
                asker = asker or Asker(self._front.port)
                asker.send(status_request(server, ip))
                status, body = asker.read()
                asker = asker if is_kept and not asker.has_ended() else None
            except OSError as error:
                # HAProxy, or the held socket, must answer every request: a connection that it ends is a failure.
                self.failed.append(repr(error))
                asker = None
                continue
            with self._lock:
                self.reads += 1
                self.longest = self.longest if is_kept else max(self.longest, time.monotonic() - began)
            self._judge(status, body, expected, since)

    def _question(self, nth):
        kind = nth % 3
        if kind == 0 or (kind == 2 and not self._fresh):
            return (*self._recorded[nth % len(self._recorded)], False, 0)
        if kind == 1:
            return (*self._never[nth % len(self._never)], True, 0)
        server, ip, since = self._fresh[-1 - nth % min(len(self._fresh), 500)]
        return server, ip, False, since

    def _judge(self, status, body, expected, since):
        if status != 200:
            self.failed.append(f"{status} {body[:80]!r}")
        elif (b'"can_vote":true' in body) != expected:
            if since and time.monotonic() - since < LATE_SECONDS_MAX:
                with self._lock:
                    self.late += 1
                    self.latest = max(self.latest, time.monotonic() - since)
            else:
                self.wrong.append(f"{body[:120]!r}, {time.monotonic() - since:.1f} s after its vote")

    def _cast(self):
        """One vote after the other; one that is not answered is sent again, as a site would."""
        asker, nth, again = None, 0, False
        while not self._stop.is_set():
            server, ip = 28 + nth % 50, f"203.{nth // 65536 % 256}.{nth // 256 % 256}.{nth % 256}"
            try:
                asker = asker or Asker(self._front.control_port)
                asker.send(cast_request(self._key, server, ip))
                status, said = asker.read()
                asker = None if asker.has_ended() else asker
            except OSError as error:
                asker, status, said = None, 0, repr(error)
            if status == 201 or (status == 409 and again):
                self.casts += 1
                self._fresh.append((server, ip, time.monotonic()))
                nth, again = nth + 1, False
            elif status == 409:
                self.wrong.append(f"a vote for {server} and {ip} was refused, and never cast")
                nth += 1
            else:
                again = True
                self.refused.append(f"{status} {said[:120]}")
                time.sleep(0.02)
