"""What is timed, in which groups, with which competitors. How it is timed is in runner, latency and memory."""

from dataclasses import dataclass, field

from lib.competitor import PATH, Setup

OURS = "vote-status"
THOUSAND = 1000
# The label of the second, nearly empty vote-status that scenario 4 times beside the full one.
SMALL = "vote-status (1 thousand)"

TITLES = {
    1: "keep-alive",
    2: "a new connection for every request",
    3: "pipelined × 16",
    4: "reads spread over all live cooldowns",
    5: "latency at a fixed rate",
    6: "reads while votes are being recorded durably",
    7: "memory",
}


@dataclass(frozen=True)
class Variant:
    """One thing that every competitor of a group is timed at."""

    key: str
    scenario: int
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
    # label → why it is not in this group
    left_out: dict = field(default_factory=dict)
    # What is measured on the same processes after the variants: scenario 5, and the parts of 7.
    latency: bool = False
    idle: bool = False
    cooldowns: bool = False


def keep_alive(quick):
    """Scenario 1: a quick run takes two corners of the six."""
    corners = [(connections, head) for connections in (64, 512) for head in ("curl", "guzzle", "browser")]
    if quick:
        corners = [(64, "curl"), (512, "guzzle")]
    return [
        Variant(f"keep-alive-{count}-{head}", 1, f"keep-alive, {count} connections, {head} head", "head.lua", (head,), count)
        for count, head in corners
    ]


def groups(options, competitors):
    """The groups of the chosen scenarios, in the order in which they are run."""
    found = [make(options, competitors) for make in (_plain, _idle, _durable, _spread)]
    return [group for group in found if group.entries]


def steps(options, competitors):
    """How many steps the progress line will count."""
    count = 0
    for group in groups(options, competitors):
        rounds = sum(1 if options.quick and each.slow else options.pairs for _, each, _ in group.entries)
        count += rounds * len(group.variants) + group.cooldowns
        count += len(group.entries) * (group.idle + group.latency)
        count += rounds * group.latency
    return count


def _plain(options, competitors):
    """Scenarios 1, 2, 3 and 5: everybody, almost without state."""
    variants = keep_alive(options.quick) if 1 in options.scenarios else []
    if 2 in options.scenarios:
        variants.append(Variant("new-connection", 2, f"{TITLES[2]}, 64 at a time", "close.lua"))
    if 3 in options.scenarios:
        variants.append(Variant("pipelined", 3, f"{TITLES[3]}, 64 connections", "pipeline.lua"))
    group = Group(variants, [], latency=5 in options.scenarios)
    if variants or group.latency:
        group.entries = [(each.name, each, Setup()) for each in competitors]
    return group


def _idle(options, competitors):
    """The idle connections of 7, on processes that have not served anything else."""
    if 7 not in options.scenarios:
        return Group([], [])
    return Group([], [(each.name, each, Setup()) for each in competitors], idle=True)


def _durable(options, competitors):
    """Scenario 6: those that keep votes over a restart."""
    variant = Variant("votes-beside", 6, f"{TITLES[6]}, 64 connections", "head.lua", ("curl",), writes=True)
    group = Group([variant], [])
    for each in competitors if 6 in options.scenarios else ():
        if each.durable:
            group.entries.append((each.name, each, Setup(durable=True)))
        else:
            group.left_out[each.name] = "records no votes durably"
    return group


def _spread(options, competitors):
    """Scenario 4 and the cooldowns of 7: those with state, filled; for 7 alone that is vote-status."""
    title = f"{options.cooldowns:,} live cooldowns, one read in ten in cooldown, 64 connections"
    timed = 4 in options.scenarios
    variants = [Variant("spread", 4, title, "spread.lua", (options.cooldowns,), path="")] if timed else []
    group = Group(variants, [], cooldowns=7 in options.scenarios)
    for each in competitors if timed or group.cooldowns else ():
        if not timed and each.name != OURS:
            continue
        if not each.stateful:
            group.left_out[each.name] = "keeps no state"
        elif each.slow and options.quick:
            group.left_out[each.name] = "too long to fill for a quick run"
        else:
            group.entries.append((each.name, each, Setup(cooldowns=options.cooldowns)))
        if timed and each.name == OURS:
            group.entries.append((SMALL, each, Setup(cooldowns=THOUSAND)))
    return group
