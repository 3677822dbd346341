"""Players in one epoll loop, who wait or poll until they are told of their vote, and then ask for another address; and
the votes for them, cast over kept connections. Instants are seconds of `time.perf_counter()`."""

import re
import select
import socket
import time

from lib.process import Failed
from lib.propagation import cast_request

SERVER = 28
# What a PHP client sends.
REQUEST = (
    "GET /api/vote/28/status/{}{} HTTP/1.1\r\nHost: votes.example\r\nUser-Agent: GuzzleHttp/7\r\n"
    "Content-Type: application/json\r\n{}\r\n"
)
CASTERS = 128
# The kernel's number of the option: Python has the name from 3.12 on. With it, a port is free for each pair of addresses.
IP_BIND_ADDRESS_NO_PORT = 24
SOURCES = 8
CONNECTIONS_PER_SECOND = 4_000
# Votes go round all players, and hit them at each moment of their turn alike.
STRIDE = 7_919
# A timer may be early by a tick, and a waiter asks a little after the instant that is noted.
EARLY_SECONDS_MAX = 0.02
FREE = re.compile(rb'HTTP/1\.1 200 OK\r\n.*\r\n\r\n{"success":true,"can_vote":true,[^}]*,"cooldown_minutes":90}', re.DOTALL)
TOLD = re.compile(
    rb'HTTP/1\.1 200 OK\r\n.*\r\n\r\n{"success":false,"can_vote":false,"message":"Vous pourrez voter \xc3\xa0 nouveau dans '
    rb'\d+ minutes","next_vote_at":"([^"]+)","cooldown_minutes":90}',
    re.DOTALL,
)
CAST = re.compile(rb'HTTP/1\.1 201 .*"next_vote_at":"([^"]+)"', re.DOTALL)


def address(nth):
    return f"10.{nth >> 16 & 255}.{nth >> 8 & 255}.{nth & 255}"


class Vote:
    """A vote for a waiting player: when it was sent, when its 201 was read, when the waiter had its answer."""

    __slots__ = ("sent", "acked", "told", "reply", "answer")

    def __init__(self):
        self.sent, self.acked, self.told, self.reply, self.answer = time.perf_counter(), 0.0, 0.0, b"", b""

    def fault(self):
        """What is wrong with it, or None. The waiter's answer has to be the cooldown of this very vote."""
        cast, told = CAST.match(self.reply), TOLD.fullmatch(self.answer)
        if not cast:
            return f"a vote was answered {self.reply!r}"
        if not self.told:
            return "a waiter was not told"
        return None if told and told[1] == cast[1] else f"a waiter was told {self.answer!r} of {self.reply!r}"


class Loop:
    """Reads whole responses from many connections; each ends with the only `}` that is in it."""

    def __init__(self):
        self._epoll, self._readers = select.epoll(), {}

    def open(self, port, answered, nth=0):
        """A connection; `answered` is called with each response."""
        client = socket.socket()
        client.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        client.bind((f"127.0.0.{2 + nth % SOURCES}", 0))
        client.settimeout(10)
        client.connect(("127.0.0.1", port))
        client.setblocking(False)
        rest = b""

        def read():
            nonlocal rest
            got = client.recv(65536)
            if not got:
                raise Failed(f"a connection ended after {rest!r}")
            rest += got
            if rest.endswith(b"}"):
                answer, rest = rest, b""
                answered(answer)

        self._readers[client.fileno()] = read
        # Edge-triggered: at each edge the client reads all bytes. Level-triggered, the kernel would look through thousands of
        # sockets that have been read.
        self._epoll.register(client, select.EPOLLIN | select.EPOLLET)
        return client

    def close(self, client):
        del self._readers[client.fileno()]
        client.close()

    def turn(self):
        """Reads what is there, or comes within a millisecond."""
        for descriptor, _ in self._epoll.poll(0.001):
            self._readers[descriptor]()

    def run(self, until, seconds_max, *paces):
        """Turns until `until` holds; gives whether that was in time. A pace is a rate and an action. Each time that the
        action is due, it gets the number of times before. An action that gives False stays due."""
        began, done = time.perf_counter(), [0] * len(paces)
        while not until():
            passed = time.perf_counter() - began
            if passed > seconds_max:
                return False
            for nth, (rate, act) in enumerate(paces):
                while done[nth] < passed * rate and act(done[nth]) is not False:
                    done[nth] += 1
            self.turn()
        return True


class Player:
    __slots__ = ("nth", "client", "pair", "vote", "asked", "wait")

    def __init__(self, nth):
        self.nth, self.client, self.pair, self.vote, self.asked, self.wait = nth, None, nth, None, 0.0, 0


class Crowd(Loop):
    """`wait` is for how many seconds each asks to be held, 0 where they poll; `kept`, whether on one connection."""

    def __init__(self, service, players, wait=0, kept=True):
        super().__init__()
        self.service, self.wait, self.kept = service, wait, kept
        self.players = [Player(nth) for nth in range(players)]
        self.votes, self.wrong, self.free = [], [], 0
        self._pairs, self._casters = players, []
        service.control.put_server(SERVER)
        for _ in range(CASTERS):
            self._open_caster()

    def open_all(self):
        """Everybody connects, at a rate that the service's queue of newcomers takes."""
        self._all(lambda nth: self._connect(self.players[nth]), CONNECTIONS_PER_SECOND)

    def ask_all(self, rate=CONNECTIONS_PER_SECOND, wait_of=lambda player, wait: wait):
        self._all(lambda nth: self.ask(self.players[nth], wait_of(self.players[nth], self.wait)), rate)

    def until_held(self, seconds_max=30):
        """Returns once the service holds them all."""
        deadline = time.monotonic() + seconds_max
        while self.service.control.metric("vote_status_waiting") < len(self.players):
            if time.monotonic() > deadline:
                raise Failed(f"not all of {len(self.players)} wait, {seconds_max} s after they asked")
            self.run(lambda: False, 0.05)

    def _all(self, act, rate):
        left = list(range(len(self.players)))[::-1]
        if not self.run(lambda: not left, 60, (rate, lambda _: bool(left) and (act(left.pop()), True)[1])):
            raise Failed(f"{len(left)} of {len(self.players)} were not served within a minute")

    def _connect(self, player):
        player.client = self.open(self.service.port, lambda answer: self.answered(player, answer), player.nth)

    def ask(self, player, wait=None):
        player.wait = self.wait if wait is None else wait
        if not self.kept:
            self._connect(player)
        query, more = f"?wait={player.wait}" if player.wait else "", "" if self.kept else "Connection: close\r\n"
        player.asked = time.perf_counter()
        player.client.send(REQUEST.format(address(player.pair), query, more).encode())

    def ask_nth(self, nth):
        self.ask(self.players[nth % len(self.players)])

    def answered(self, player, answer):
        now, vote = time.perf_counter(), player.vote
        if vote and b'"can_vote":false' in answer:
            vote.told, vote.answer = now, answer
            player.vote, player.pair = None, self._pairs
            self._pairs += 1
        elif not FREE.fullmatch(answer) or now < player.asked + player.wait - EARLY_SECONDS_MAX:
            self.wrong.append(f"{answer!r} after {now - player.asked:.3f} s of {player.wait}")
        else:
            self.free += 1
        if not self.kept:
            self.close(player.client)
        if player.wait:
            self.ask(player)

    def _open_caster(self):
        def answered(answer):
            vote, caster[1] = caster[1], None
            vote.acked, vote.reply = time.perf_counter(), answer
            self._casters.append(caster)

        caster = [self.open(self.service.control_port, answered), None]
        self._casters.append(caster)

    def cast(self, nth):
        """A vote for the address of the next player; False where all connections for votes are busy."""
        player = self.players[nth * STRIDE % len(self.players)]
        if not self._casters or player.vote:
            return False
        caster = self._casters.pop()
        request = cast_request(self.service.key, SERVER, address(player.pair))
        caster[1] = player.vote = vote = Vote()
        self.votes.append(vote)
        caster[0].send(request)
        return True

    def are_told(self):
        return all(vote.told and vote.acked for vote in self.votes)

    def faults(self):
        return self.wrong + [fault for fault in map(Vote.fault, self.votes) if fault]


class OnePair(Crowd):
    """All wait for the same vote, and ask again when they are told to."""

    def __init__(self, service, players, wait):
        super().__init__(service, players, wait)
        self.told, self.told_at = 0, 0.0
        for player in self.players:
            player.pair = 0

    def answered(self, player, answer):
        self.told, self.told_at = self.told + 1, time.perf_counter()
        if not TOLD.fullmatch(answer):
            self.wrong.append(repr(answer))

    def tell(self):
        """Casts the vote, and takes it back once all have heard: (its instant, that of the last answer)."""
        self.told, cast_at = 0, time.perf_counter()
        self.service.control.vote(SERVER, address(0))
        if not self.run(lambda: self.told == len(self.players), 30):
            self.wrong.append(f"{len(self.players) - self.told} were not told")
        self.service.control.text("DELETE", f"/v1/votes/{SERVER}/{address(0)}")
        return cast_at, self.told_at
