"""From the sending of a vote to one node until another one shows it on its public listener."""

import json
import select
import socket
import time

from lib.process import Failed


class Asker:
    """One kept connection that sends and reads whole responses."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest, self._closes = b"", False

    def has_ended(self):
        """Whether the service has closed the connection, or has said that it does."""
        is_readable = select.select([self._socket], [], [], 0)[0]
        return self._closes or bool(is_readable) and self._socket.recv(1, socket.MSG_PEEK) == b""

    def send(self, request):
        self._socket.sendall(request)

    def read(self):
        """(status, body) of one response with a Content-Length."""
        while b"\r\n\r\n" not in self._rest:
            self._fill()
        head, _, rest = self._rest.partition(b"\r\n\r\n")
        # A proxy may have changed the case of the name.
        self._closes = b"\r\nconnection: close" in head.lower()
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        self._rest = rest
        while len(self._rest) < length:
            self._fill()
        body, self._rest = self._rest[:length], self._rest[length:]
        return int(head.split(b" ", 2)[1]), body

    def _fill(self):
        got = self._socket.recv(65536)
        if not got:
            raise ConnectionError("the connection ended")
        self._rest += got


def status_request(server, ip):
    return f"GET /api/vote/{server}/status/{ip} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def cast_request(key, server, ip):
    body = json.dumps({"server_id": server, "ip": ip})
    head = f"POST /v1/votes HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def propagate(caster, nodes, count, interval, network, to_all):
    """Sorted seconds of `count` votes: until one of the nodes, taken in turn, shows it, or until all do. The addresses
    are of `network`, two numbers with a dot."""
    control, *askers = [Asker(port) for port in (caster.control_port, *(node.port for node in nodes))]
    took = []
    for nth in range(count):
        server, ip = 28, f"{network}.{nth // 256}.{nth % 256}"
        request, waiting = status_request(server, ip), askers if to_all else [askers[nth % len(askers)]]
        began = time.perf_counter()
        control.send(cast_request(caster.key, server, ip))
        while waiting:
            for asker in waiting:
                asker.send(request)
            waiting = [asker for asker in waiting if b'"can_vote":true' in asker.read()[1]]
        took.append(time.perf_counter() - began)
        status, body = control.read()
        if status != 201:
            raise Failed(f"a vote was answered {status} {body}")
        time.sleep(max(0, interval - (time.perf_counter() - began)))
    return sorted(took)


def percentile(took, percent):
    return took[min(len(took) - 1, int(len(took) * percent / 100))]
