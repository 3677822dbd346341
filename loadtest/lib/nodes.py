"""Many nodes on one Redis; Redis, the nodes and what loads them share the machine.

`measure`: from the sending of a vote to one node until others show it, beside 1,000 votes a second; single votes through
one node, 64 connections; a fresh node: time to ready, memory; CPU time per status request with 5,000 votes a second in the
feed, against a quiet feed.

`failover`: three nodes behind HAProxy, Sentinels behind them. One node is killed and started again, and the primary fails
over, under load.
"""

import shutil
import statistics
import time

from lib import process, redis, usage, votes, wrk
from lib.competitor import PATH
from lib.front import Front, Traffic
from lib.propagation import percentile, propagate
from lib.service import Service, init_store

# A failover takes the Sentinels' wait, an election, and the time in which nodes give lost votes back.
SETTLE_SECONDS_MAX = 20
SECONDS = 4


def a_node(chosen, url, name, more=(), cpus=process.EVERY_CPU, key=None):
    return Service(chosen.binary, name, ["--workers", "1", "--store", url, *more], cpus, key)


def store(chosen, name, settings=None, cpus=process.EVERY_CPU):
    """A Redis that is a store, and a node on it that knows the servers of the votes."""
    server = redis.Server(name, {**redis.STORE_SETTINGS, **(settings or {})}, cpus)
    init_store(chosen.binary, server.url)
    node = a_node(chosen, server.url, f"{name}-node", cpus=cpus)
    for number in votes.SERVERS:
        node.control.put_server(number)
    return server, node


def propagation(chosen, table):
    server, caster = store(chosen, "propagation")
    others, count = [], 400 if chosen.quick else 4_000
    rush = votes.cast_at_rate(caster, 1_000, 0, process.EVERY_CPU)
    for nth, (number, to, interval, to_all) in enumerate((
        (1, "1 other node", 0.002, False),
        (16, "one of 16 other nodes", 0.002, False),
        (16, "all of 16 other nodes", 0.005, True),
    )):
        others += [a_node(chosen, server.url, f"other-{other}") for other in range(len(others), number)]
        took = propagate(caster, others, count, interval, f"198.{18 + nth}", to_all)
        said = f"p50 {percentile(took, 50) * 1e3:.2f} ms, p99 {percentile(took, 99) * 1e3:.2f} ms"
        table.add(f"propagation to {to}", said)
    process.stop(rush)


def casts(chosen, table):
    for policy in ("always", "everysec"):
        _, node = store(chosen, f"casts-{policy}", {"appendfsync": policy})
        rates = [
            wrk.rate(node.control_port, "", "cast.lua", min(chosen.seconds, SECONDS), node.key, nth * 4_000_000)[0]
            for nth in range(chosen.pairs)
        ]
        table.add(f"votes through one node, appendfsync {policy}", f"{statistics.median(rates):,.0f}/s")


def start(chosen, table):
    server = redis.Server("start", redis.STORE_SETTINGS)
    for count in sorted({1_000_000, max(chosen.cooldowns, 1_000_000)}):
        server.ask("FLUSHALL")
        init_store(chosen.binary, server.url)
        redis.fill_for_nodes(server, count, count // 1_000)
        node = a_node(chosen, server.url, f"fresh-{count}")
        state = node.control.request("GET", "/v1/cluster/digest")
        if state["votes"] != count:
            raise process.Failed(f"a fresh node has {state['votes']} of {count} votes")
        resident = usage.memory([node.process.pid]).rss / 2**20
        limit = 10 if count == 10_000_000 else None
        table.add(
            f"a fresh node with {count:,} votes",
            f"ready in {node.ready_seconds:.2f} s; {resident:,.0f} MiB resident, Redis {server.memory() / 2**20:,.0f} MiB",
            f"{limit} s" if limit else "",
            node.ready_seconds <= limit if limit else None,
        )
        process.stop(node.process)


def cpu_seconds(node):
    """(of the threads that answer status requests, of the whole process)"""
    return [spent.user + spent.system for spent in (usage.cpu_time([node.process.pid], only) for only in ("worker", ""))]


def status(chosen, table):
    """The votes go on all the time, to this store or to another: only the feed makes the difference."""
    cpu, others = process.cpus()
    seconds = min(chosen.seconds, SECONDS)
    server, writer = store(chosen, "status", cpus=others)
    _, elsewhere = store(chosen, "elsewhere", cpus=others)
    node = a_node(chosen, server.url, "status-asked", cpus=cpu)
    first, ratios, whole, rates = 0, [], [], []
    for _ in range(chosen.pairs):
        cost = {}
        for writer_now in (elsewhere, writer):
            rush = votes.cast_at_rate(writer_now, 5_000, first, others)
            time.sleep(0.5)
            before, fed_before = cpu_seconds(node), node.control.metric("vote_status_store_events_total")
            url = f"http://127.0.0.1:{node.port}{PATH}"
            said = wrk.run(url, "head.lua", (), 64, seconds, others)
            fed = node.control.metric("vote_status_store_events_total") - fed_before
            cost[writer_now] = [(end - begin) / said["requests"] * 1e6 for begin, end in zip(before, cpu_seconds(node))]
            process.stop(rush)
            first += 5_000 * (seconds + 5)
        # The rate of the second one, which feeds this node.
        rates.append(fed / seconds)
        ratios.append(cost[writer][0] / cost[elsewhere][0])
        whole.append(cost[writer][1] / cost[elsewhere][1])
    ratio = statistics.median(ratios)
    table.add(
        f"CPU per status request, feed at {statistics.mean(rates):,.0f} votes/s against quiet",
        f"{ratio:.3f} × ({min(ratios):.3f} to {max(ratios):.3f}; the whole process {statistics.median(whole):.2f} ×)",
        "1.05 ×",
        ratio <= 1.05,
    )


def failover(chosen, table):
    require("redis-server", "haproxy")
    settings = {**redis.STORE_SETTINGS, "min-replicas-to-write": "1", "min-replicas-max-lag": "2"}
    primary = redis.Server("primary", settings)
    for nth in range(2):
        redis.Server(f"replica-{nth}", {**settings, "replicaof": ["127.0.0.1", primary.port]})
    sentinels = [redis.Sentinel(f"sentinel-{nth}", primary) for nth in range(3)]
    for each in sentinels:
        each.wait_for(sentinels=2, replicas=2)
    url = "redis+sentinel://" + ",".join(f"127.0.0.1:{each.port}" for each in sentinels) + "/votes"
    init_store(chosen.binary, url)
    key = "the-control-key-of-this-run"
    three = [a_node(chosen, url, f"front-{nth}", ["--store-wait-replicas", "1"], key=key) for nth in range(3)]
    for server in votes.SERVERS:
        three[0].control.put_server(server)
    recorded, never = known_pairs(three)
    entrance = Front(three)
    traffic = Traffic(entrance, key, recorded, never)
    pause = 3 if chosen.quick else 8
    for what, act in (
        ("a node is killed", three[1].kill),
        ("the node is started again", three[1].start),
        ("the primary is killed", primary.kill),
        ("the old primary comes back", primary.start),
        ("the end", lambda: None),
    ):
        time.sleep(pause)
        print(f"  {what}: {traffic.reads:,} reads so far", flush=True)
        act()
    traffic.stop()
    is_settled, took = settle(three)
    forgotten = traffic.forgotten(three)
    table.add(
        "traffic",
        f"{traffic.reads:,} reads, {traffic.casts:,} votes ({len(traffic.refused):,} refused meanwhile); {traffic.late} reads lacked "
        f"another node's vote, the oldest {traffic.latest * 1e3:.0f} ms old",
    )
    if traffic.reads <= 1_000 or traffic.casts <= 100:
        table.faults.append("too little was asked to judge a failover by")
    table.expect_none("wrong answers", traffic.wrong)
    table.expect_none("failed reads", traffic.failed)
    table.expect_none("acknowledged votes lost", forgotten)
    table.expect_none(f"the nodes differ {took:.1f} s after the last vote", [] if is_settled else ["the nodes differ in the end"])


def known_pairs(nodes):
    """Pairs with a vote, cast at each node in turn and shown by all, and pairs without one."""
    recorded, never = ([(28 + nth % 50, f"{network}.{nth}") for nth in range(250)] for network in ("192.0.2", "198.51.100"))
    for nth, (server, ip) in enumerate(recorded):
        nodes[nth % len(nodes)].control.vote(server, ip)
    time.sleep(1)
    return recorded, never


def settle(three):
    """Whether the nodes come to the same votes, and after how long. On a machine that stalls for longer than the
    Sentinels wait, another failover may be under way."""
    start = time.monotonic()
    while True:
        digests = {each.control.request("GET", "/v1/cluster/digest")["votes_digest"] for each in three}
        took = time.monotonic() - start
        if len(digests) == 1 or took > SETTLE_SECONDS_MAX:
            return len(digests) == 1, took
        time.sleep(0.1)


def require(*programs):
    for program in programs:
        if not shutil.which(program):
            raise process.Missing(f"{program} is not installed")


def measure(chosen, table):
    require("redis-server")
    for part in (propagation, casts, start, status):
        count = process.started_count()
        part(chosen, table)
        process.stop_since(count)
