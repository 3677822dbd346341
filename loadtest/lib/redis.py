"""Redis: servers and Sentinels of a run's own, and a client that speaks their protocol."""

import socket
import time

from lib import paths, process
from lib.control import ADDRESSES, SERVERS

COOLDOWN_SECONDS = 90 * 60
COMMANDS_PER_WRITE = 10_000
# The settings that docs/CLUSTER.md asks of a Redis that nodes share.
STORE_SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "maxmemory-policy": "noeviction",
    "zset-max-listpack-entries": "512",
    "repl-backlog-size": "64mb",
    "tcp-keepalive": "30",
    "repl-diskless-sync-delay": "0",
}


class Server:
    """A redis-server; it keeps its port over a restart."""

    def __init__(self, name, settings, cpus=process.EVERY_CPU):
        self.folder, self.port = paths.fresh(name), process.free_port()
        self.log, self._settings, self._cpus = self.folder / "redis.log", settings, cpus
        self.start()

    def start(self):
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder]
        for name, value in self._settings.items():
            command += [f"--{name}", *(value if isinstance(value, list) else [value])]
        self.process = process.spawn(command, self._cpus, self.log)
        process.wait_until(self.process, self._answers, self.log)

    def _answers(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, process.Failed):
            return False

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def ask(self, *words):
        """One question on a connection of its own."""
        with Connection(self.port) as connection:
            return connection.ask(*words)

    def kill(self):
        process.kill(self.process)

    def memory(self):
        return int(self.ask("INFO", "memory").split("used_memory:")[1].split()[0])


class Sentinel:
    """A Sentinel that watches one primary under the name `votes`; two of three have to agree."""

    def __init__(self, name, primary):
        folder, self.port = paths.fresh(name), process.free_port()
        file, log = folder / "sentinel.conf", folder / "sentinel.log"
        file.write_text(
            f"port {self.port}\nbind 127.0.0.1\nsentinel monitor votes 127.0.0.1 {primary.port} 2\n"
            "sentinel down-after-milliseconds votes 1000\nsentinel failover-timeout votes 5000\n"
        )
        self.process = process.spawn(["redis-server", file, "--sentinel"], process.EVERY_CPU, log)
        process.wait_for_port(self.process, self.port, log)

    def wait_for(self, sentinels, replicas):
        """Returns once it knows that many other Sentinels, and that many replicas."""
        deadline = time.monotonic() + 30
        with Connection(self.port) as connection:
            while (
                len(connection.ask("SENTINEL", "sentinels", "votes")) < sentinels
                or len(connection.ask("SENTINEL", "replicas", "votes")) < replicas
            ):
                if time.monotonic() > deadline:
                    raise process.Failed("the Sentinels do not find each other")
                time.sleep(0.1)


class Connection:
    """A connection that sends commands and reads replies, as Python values."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._replies = self._socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._replies.close()
        self._socket.close()

    def ask(self, *words):
        return self.ask_all([command(*words)])[0]

    def ask_all(self, commands):
        """Sends them in one write, and reads a reply for each."""
        self._socket.sendall(b"".join(commands))
        return [self._read() for _ in commands]

    def _read(self):
        line = self._replies.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind in (b"$", b"*") and int(rest) < 0:
            return None
        if kind == b"$":
            return self._replies.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        raise process.Failed(f"redis said {line[:100]!r}")


def command(*words):
    texts = [str(word) for word in words]
    return "".join([f"*{len(texts)}\r\n", *(f"${len(text)}\r\n{text}\r\n" for text in texts)]).encode()


def vote_command(server, ip):
    """A vote as the peers keep it: one key a vote, with an expiry."""
    return command("SET", f"cooldown:{server}:{ip}", int(time.time()) + COOLDOWN_SECONDS, "EX", COOLDOWN_SECONDS)


def caster(port):
    """A function that casts for one address of server 28 and returns once that was acknowledged."""
    connection = Connection(port)
    return lambda ip: connection.ask_all([vote_command(28, ip)])


def fill_for_peer(port, cooldowns):
    """The first state of a peer: the pair that is checked, the servers, and the cooldowns spread over them."""
    with Connection(port) as connection:
        servers = [command("SET", f"server:{server}", 1) for server in (28, *SERVERS)]
        connection.ask_all([*servers, vote_command(28, "203.0.113.9")])
        each = cooldowns // len(SERVERS)
        for server in SERVERS if each else ():
            for at in range(0, each, COMMANDS_PER_WRITE):
                ips = ADDRESSES[at : min(at + COMMANDS_PER_WRITE, each)]
                connection.ask_all([vote_command(server, ip) for ip in ips])


def fill_for_nodes(redis, votes, servers):
    """That many votes, spread evenly over servers and over the last hour, as nodes would have left them."""
    each, now = votes // servers, int(redis.ask("TIME")[0])
    pairs = [word for nth in range(each) for word in (now - nth * 7919 % 3600, 0xCB000000 + nth)]
    listing = command(*pairs).split(b"\r\n", 1)[1]
    with Connection(redis.port) as connection:
        for server in range(1000, 1000 + servers):
            key, token = f"vs:{{0}}:s:{server}", f"load-{server}"
            head = f"*{2 + len(pairs)}\r\n$4\r\nZADD\r\n${len(key)}\r\n{key}\r\n".encode()
            others = [
                command("PEXPIRE", key, (COOLDOWN_SECONDS + 60) * 1000),
                command("HSET", "vs:{0}:dir", server, f"v2;{0:016}-{server:016x};0;{token}"),
                command("HSET", "vs:{0}:tok", token, server),
            ]
            try:
                connection.ask_all([head + listing, *others])
            except (OSError, process.Failed) as error:
                said = process.tail(redis.log)
                raise process.Failed(f"{error}; the process: {redis.process.poll()}; {said}") from error
