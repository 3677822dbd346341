"""The upgrade from an earlier version under load, and the way back, as docs/MIGRATE.md and docs/CLUSTER.md say.

One node: its sockets are held, and it has a million cooldowns. Many nodes: three behind HAProxy on one Redis, and the site
sends its votes to the first one, which is upgraded first.
"""

import os
import time

from lib import paths, process, redis, votes
from lib.control import Control
from lib.front import Front, Traffic
from lib.nodes import known_pairs, require, settle
from lib.restarts import NEVER, READERS_KEPT, RECORDED, Held
from lib.service import Service, init_store

COOLDOWNS_MAX = 1_000_000
PAUSE_SECONDS = 3


class Versions:
    """A program whose version is changed between two starts, as a package does it."""

    def __init__(self, chosen, name):
        self._earlier, self._this = chosen.baseline.resolve(), chosen.binary.resolve()
        self.program = paths.fresh(f"program-{name}") / "vote-status"
        self.program.symlink_to(self._earlier)

    def upgrade(self):
        following = self.program.with_name("next")
        following.symlink_to(self._this)
        os.replace(following, self.program)


def measure(chosen, table):
    if not chosen.baseline:
        raise process.Missing("the earlier version is not given (--baseline)")
    for part in (one_node, many_nodes):
        count = process.started_count()
        part(chosen, table)
        process.stop_since(count)


def one_node(chosen, table):
    cooldowns, versions = min(chosen.cooldowns, COOLDOWNS_MAX), Versions(chosen, "one")
    service = Held(versions.program, "upgrade")
    for number in votes.SERVERS:
        service.control.put_server(number)
    service.control.batch(votes.past(cooldowns, 0), cooldowns, "?mode=record")
    service.control.vote(*RECORDED[0])
    traffic = Traffic(service, service.key, RECORDED, NEVER, READERS_KEPT)
    time.sleep(PAUSE_SECONDS)
    versions.upgrade()
    service.restart()
    time.sleep(2 * PAUSE_SECONDS)
    traffic.stop()
    what = f"one node with {cooldowns:,} cooldowns"
    table.add(what, f"{traffic.reads:,} answers, {traffic.casts:,} votes, longest new connection {traffic.longest:.2f} s")
    _judge(traffic, [service], what, table)
    table.expect_none(f"{what}: votes that were refused", traffic.refused)
    _way_back(chosen, service, traffic.casts + 1 + cooldowns, table)


def _way_back(chosen, service, count, table):
    """The earlier version imports this version's export without its first line."""
    export = paths.fresh("export") / "votes"
    # The connection of before the upgrade has gone with the earlier version.
    control = Control(service.control_port, service.key)
    export.write_text(control.text("GET", "/v1/export").split("\n", 1)[1])
    process.stop(service.process)
    back = Service(chosen.baseline, "way-back")
    words = ["import", export, "--control-url", f"http://127.0.0.1:{back.control_port}"]
    done = process.output([chosen.baseline, *words], env={**os.environ, "VOTE_STATUS_CONTROL_KEY": back.key})
    if done.returncode:
        raise process.Failed(f"the way back: import: {done.stderr}")
    # No cooldown of `votes.past` ends within the run: all are from the last hour.
    live = back.control.metric("vote_status_cooldowns")
    table.add("the way back: cooldowns after the earlier version has imported this one's export", f"{live:,.0f}", f"{count:,}", live == count)


def many_nodes(chosen, table):
    require("redis-server", "haproxy")
    server = redis.Server("upgrade-redis", redis.STORE_SETTINGS)
    init_store(chosen.baseline, server.url)
    versions = [Versions(chosen, f"node-{nth}") for nth in range(3)]
    three = [
        Service(each.program, f"upgrade-node-{nth}", ["--workers", "1", "--store", server.url], key="the-key-of-this-run")
        for nth, each in enumerate(versions)
    ]
    for number in votes.SERVERS:
        three[0].control.put_server(number)
    recorded, never = known_pairs(three)
    entrance = Front(three)
    # The site knows one node.
    entrance.control_port = three[0].control_port
    traffic = Traffic(entrance, three[0].key, recorded, never)
    for each, version in zip(three, versions):
        time.sleep(PAUSE_SECONDS)
        version.upgrade()
        process.stop(each.process)
        each.start()
    time.sleep(3 * PAUSE_SECONDS)
    traffic.stop()
    is_settled, took = settle(three)
    table.add(
        "three nodes, one after the other",
        f"{traffic.reads:,} answers, {traffic.casts:,} votes ({len(traffic.refused):,} asked again meanwhile), longest without a "
        f"vote {traffic.longest_without_vote():.1f} s; {traffic.late} answers lacked another node's vote, the oldest "
        f"{traffic.latest * 1e3:.0f} ms old",
    )
    _judge(traffic, three, "three nodes", table)
    table.expect_none(f"three nodes differ {took:.1f} s after the last vote", [] if is_settled else ["they differ in the end"])


def _judge(traffic, nodes, what, table):
    if traffic.reads <= 1_000 or traffic.casts <= 100:
        table.faults.append(f"{what}: too little was asked to judge an upgrade by")
    table.expect_none(f"{what}: wrong answers", traffic.wrong)
    table.expect_none(f"{what}: failed reads", traffic.failed)
    table.expect_none(f"{what}: acknowledged votes lost", traffic.forgotten(nodes))
