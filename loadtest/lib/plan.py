"""Every scenario by its name, and the groups in which competitors are timed beside each other. The measurements are in
runner, latency and memory, and in the module of each scenario of its own.
"""

from dataclasses import dataclass

from lib import full, nodes, restarts, starts, tails, upgrade, waiting, writes
from lib.competitor import PATH, Setup

OURS = "vote-status"
THOUSAND = 1000
# The label of the second, nearly empty vote-status that `spread` times beside the full one.
SMALL = "vote-status (1 thousand)"

# Beside the competitors.
BESIDE = {
    "keep-alive": "keep-alive",
    "new-connection": "a new connection each",
    "pipelined": "pipelined × 16",
    "spread": "reads spread over all live cooldowns",
    "latency": "latency at a fixed rate",
    "votes-beside": "reads beside durable votes",
    "memory": "memory",
}
# Scenarios of vote-status alone, each with the function that measures it. The function gets the options and a table.
ALONE = {
    "writes": ("the write side of one service", writes.measure),
    "tails": ("tails of reads beside other work", tails.measure),
    "waiting": ("told of a vote at once, by `?wait=`", waiting.measure),
    "full": ("all connections are taken: newcomers, waits and votes", full.measure),
    "restarts": ("restarts under load, with held sockets", restarts.measure),
    "starts": ("starts with many live cooldowns: time and memory", starts.measure),
    "nodes": ("many nodes on one Redis", nodes.measure),
    "upgrade": ("the upgrade from an earlier version under load", upgrade.measure),
    "failover": ("three nodes behind HAProxy while a node and the Redis primary are killed", nodes.failover),
}
SCENARIOS = [*BESIDE, *ALONE]


@dataclass(frozen=True)
class Variant:
    """One thing that every competitor of a group is timed at."""

    key: str
    scenario: str
    title: str
    script: str
    arguments: tuple = ()
    connections: int = 64
    path: str = PATH
    writes: bool = False


@dataclass
class Group:
    """Variants that are timed on the same started processes: (label, competitor, set-up) each."""

    variants: list
    entries: list
    # Measurements on the same processes after the variants.
    latency: bool = False
    idle: bool = False
    cooldowns: bool = False


def keep_alive(quick):
    """Six corners: a quick run takes two of them."""
    corners = [(connections, head) for connections in (64, 512) for head in ("curl", "guzzle", "browser")]
    if quick:
        corners = [(64, "curl"), (512, "guzzle")]
    return [
        Variant(f"keep-alive-{count}-{head}", "keep-alive", f"keep-alive {count}, {head}", "head.lua", (head,), count)
        for count, head in corners
    ]


def groups(options, competitors):
    """The groups of the chosen scenarios, in the order in which they are run."""
    found = [make(options, competitors) for make in (_plain, _idle, _durable, _spread)]
    return [group for group in found if group.entries]


def _plain(options, competitors):
    """Everybody, almost without state."""
    variants = keep_alive(options.quick) if "keep-alive" in options.scenarios else []
    if "new-connection" in options.scenarios:
        variants.append(Variant("new-connection", "new-connection", BESIDE["new-connection"], "close.lua"))
    if "pipelined" in options.scenarios:
        variants.append(Variant("pipelined", "pipelined", BESIDE["pipelined"], "pipeline.lua"))
    group = Group(variants, [], latency="latency" in options.scenarios)
    if variants or group.latency:
        group.entries = [(each.name, each, Setup()) for each in competitors]
    return group


def _idle(options, competitors):
    """Idle connections, on processes that have not served anything else."""
    if "memory" not in options.scenarios:
        return Group([], [])
    return Group([], [(each.name, each, Setup()) for each in competitors], idle=True)


def _durable(options, competitors):
    """Those that keep votes over a restart."""
    variant = Variant("votes-beside", "votes-beside", BESIDE["votes-beside"], "head.lua", ("curl",), writes=True)
    chosen = [each for each in competitors if each.durable and "votes-beside" in options.scenarios]
    return Group([variant], [(each.name, each, Setup(durable=True)) for each in chosen])


def _spread(options, competitors):
    """Those with state, filled; for the memory of cooldowns alone that is vote-status."""
    title = f"{options.cooldowns:,} live cooldowns"
    timed = "spread" in options.scenarios
    variants = [Variant("spread", "spread", title, "spread.lua", (options.cooldowns,), path="")] if timed else []
    group = Group(variants, [], cooldowns="memory" in options.scenarios)
    for each in competitors if timed or group.cooldowns else ():
        if not timed and each.name != OURS:
            continue
        # A slow one takes too long to fill for a quick run.
        if each.stateful and not (each.slow and options.quick):
            group.entries.append((each.name, each, Setup(cooldowns=options.cooldowns)))
        if timed and each.name == OURS:
            group.entries.append((SMALL, each, Setup(cooldowns=THOUSAND)))
    return group
