"""The client of the control listener: servers, votes, batches."""

import http.client
import json

from lib.process import Failed

SERVERS = range(1000, 2000)
# The addresses of `spread`, the same for every server: see loadtest/wrk/spread.lua.
ADDRESSES = [f"110.120.{100 + nth // 100}.{100 + nth % 100}" for nth in range(10_000)]
TIMEOUT_SECONDS = 600


class Control:
    """One kept connection to the control listener."""

    def __init__(self, port, key):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        self._headers = {"Authorization": f"Bearer {key}"}

    def text(self, method, path, body=None, media="application/json"):
        """The body of the answer; any status but 200, 201 and 409 fails."""
        headers = {**self._headers, **({"Content-Type": media} if body is not None else {})}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        text = response.read().decode(errors="replace")
        if response.status not in (200, 201, 409):
            raise Failed(f"{method} {path}: {response.status} {text[:200]}")
        return text

    def request(self, method, path, body=None):
        """The parsed answer."""
        return json.loads(self.text(method, path, None if body is None else json.dumps(body)))

    def takes_votes(self):
        """Whether the service is ready, and its store takes votes."""
        self._connection.request("GET", "/readyz", headers=self._headers)
        response = self._connection.getresponse()
        said = json.loads(response.read())
        return response.status == 200 and said.get("votes", True)

    def metric(self, name):
        """One figure, by its name and labels."""
        lines = self.text("GET", "/metrics").splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))

    def buckets(self, name):
        """{upper bound: count} of a histogram of the public listener."""
        begin = f'{name}_bucket{{listener="public",le="'
        lines = [line[len(begin) :] for line in self.text("GET", "/metrics").splitlines() if line.startswith(begin)]
        return {float(line.partition('"')[0]): int(line.rpartition(" ")[2]) for line in lines}

    def put_server(self, server):
        self.request("PUT", f"/v1/servers/{server}", {"token": f"load-{server}"})

    def vote(self, server, ip):
        return self.request("POST", "/v1/votes", {"server_id": server, "ip": ip})

    def batch(self, lines, count, mode=""):
        """Sends NDJSON, in one piece or from an iterator; all `count` lines have to be recorded."""
        counts = json.loads(self.text("POST", f"/v1/votes/batch{mode}", lines, "application/x-ndjson"))
        if counts["recorded"] != count:
            raise Failed(f"a batch of {count} votes: {counts}")

    def load(self, cooldowns):
        """Registers the servers and records that many votes, a server a request."""
        each = cooldowns // len(SERVERS)
        for server in SERVERS:
            self.put_server(server)
        for server in SERVERS:
            first = f'{{"server_id":{server},"ip":"'
            between = f'"}}\n{first}'
            self.batch(first + between.join(ADDRESSES[:each]) + '"}\n', each, "?mode=cast")
