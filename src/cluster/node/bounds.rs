//! Every length of time and every maximum that a node goes by, in one value, which the caller gives.

/// What a node goes by. All instants and lengths are milliseconds.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Both connections are asked so often where the store is, and the record of this node is renewed as often. An
    /// answer on the votes' connection that is older gives no term.
    pub heartbeat_ms: u64,
    /// One deadline for each reply. A change is made within this or never.
    pub patience_ms: u64,
    /// A connection is waited for so long: sentinels may have to be asked, one after the other.
    pub connect_ms: u64,
    /// How long the store waits for a new entry before it answers that there is none.
    pub block_ms: u64,
    /// A node is not waited for where its record did not change for so long while the store took writes.
    pub silence_ms: u64,
    /// A node that starts waits for at least so long in which the store takes writes: the store may have lost the records of
    /// nodes that it has to wait for.
    pub least_wait_ms: u64,
    /// A name that was silent for so long, while the store took writes, is forgotten by all.
    pub forget_ms: u64,
    /// The pause before the next connection: this at first, and twice as long each time.
    pub backoff_min_ms: u64,
    /// See `backoff_min_ms`.
    pub backoff_max_ms: u64,
    /// A store that refuses what is given back is left alone for so long.
    pub refused_pause_ms: u64,
    /// A process that did nothing for so long was paused.
    pub pause_max_ms: u64,
    /// What was sent to a paused process has been read so long after.
    pub waking_ms: u64,
    /// Facts that are given back in one go, about: a call takes 128 pairs of words. The log is read between.
    pub facts_max: usize,
    /// Entries that are asked for at once: with this many for each round trip a node on another continent still follows tens of
    /// thousands a second. A store with a limit on what waits for a client closes the connection of a node that asks for
    /// more: after each loss the node asks for half as many, until it has caught up.
    pub entries_max: usize,
    /// A store that closes the connection over so few has another reason for it.
    pub entries_min: usize,
    /// So many servers' votes are asked for at once, while the whole state is read.
    pub servers_max: usize,
    /// Records of servers and of what was taken away that come in one reply.
    pub records_max: usize,
    /// Changes that wait for the store; more are refused.
    pub changes_max: usize,
}

impl Bounds {
    /// What the service goes by.
    pub const USUAL: Self = Self {
        heartbeat_ms: 1_000,
        patience_ms: 3_000,
        connect_ms: 10_000,
        block_ms: 200,
        silence_ms: 5_000,
        least_wait_ms: 2_000,
        forget_ms: 60_000,
        backoff_min_ms: 100,
        backoff_max_ms: 500,
        refused_pause_ms: 1_000,
        pause_max_ms: 1_000,
        waking_ms: 250,
        facts_max: 112,
        entries_max: 10_000,
        entries_min: 64,
        servers_max: 256,
        records_max: 10_000,
        changes_max: 16_384,
    };
}
