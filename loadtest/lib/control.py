"""The client of the control listener: servers, votes, batches."""

import http.client
import json

from lib.process import Failed

SERVERS = range(1000, 2000)
# The addresses of scenario 4, the same for every server: see loadtest/wrk/spread.lua.
ADDRESSES = [f"110.120.{100 + nth // 100}.{100 + nth % 100}" for nth in range(10_000)]


class Control:
    """One kept connection to the control listener."""

    def __init__(self, port, key):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}"}

    def request(self, method, path, body=None, media="application/json"):
        """The parsed answer; any status but 200, 201 and 409 fails."""
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = media
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status not in (200, 201, 409):
            raise Failed(f"{method} {path}: {response.status} {answer[:200].decode(errors='replace')}")
        return json.loads(answer)

    def text(self, path):
        """The answer as it is."""
        self._connection.request("GET", path, None, self._headers)
        return self._connection.getresponse().read().decode()

    def put_server(self, server):
        self.request("PUT", f"/v1/servers/{server}", json.dumps({"token": f"load-{server}"}))

    def vote(self, server, ip):
        return self.request("POST", "/v1/votes", json.dumps({"server_id": server, "ip": ip}))

    def batch(self, lines):
        """Sends NDJSON; every line has to be recorded."""
        counts = self.request("POST", "/v1/votes/batch", lines, "application/x-ndjson")
        wanted = lines.count("\n")
        if counts["recorded"] != wanted:
            raise Failed(f"a batch of {wanted} votes: {counts}")

    def load(self, cooldowns, progress=lambda done: None):
        """Registers the servers and records that many votes, a server a request."""
        each = cooldowns // len(SERVERS)
        for server in SERVERS:
            self.put_server(server)
        for done, server in enumerate(SERVERS):
            first = f'{{"server_id":{server},"ip":"'
            between = f'"}}\n{first}'
            self.batch(first + between.join(ADDRESSES[:each]) + '"}\n')
            progress((done + 1) * each)
