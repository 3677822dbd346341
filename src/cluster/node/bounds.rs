//! All time limits and maxima of a node, in one value that the caller gives.

/// The limits of a node. All times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The time between two heartbeats. With each the node asks for the store's time and last entry, and renews its own
    /// record. An older answer on the votes' connection gives a change no term.
    pub heartbeat_ms: u64,
    /// The longest wait for a reply. A change is made within this time or never.
    pub patience_ms: u64,
    /// The least time for an answer. The node asks nothing for a change that has less time left: a late answer ends the
    /// connection, and leaves the other changes on it in doubt. A round trip to another continent takes less.
    pub answer_min_ms: u64,
    /// The longest wait for a connection: it may have to ask several sentinels, one after the other.
    pub connect_ms: u64,
    /// The longest wait of the store for a new entry, before it answers that there is none.
    pub block_ms: u64,
    /// The time without a new record, while the store takes writes, after which no node waits for that node.
    pub silence_ms: u64,
    /// The shortest wait of a node that starts, in time in which the store takes writes. The store may have lost the
    /// records of other nodes, which need this time to write them again.
    pub least_wait_ms: u64,
    /// The silence, while the store takes writes, after which all nodes forget a name.
    pub forget_ms: u64,
    /// The first pause before another connection. Each further pause is twice as long.
    pub backoff_min_ms: u64,
    /// The longest pause before another connection.
    pub backoff_max_ms: u64,
    /// The pause after the store has refused facts that are given back.
    pub refused_pause_ms: u64,
    /// The longest time without an input: after a longer one the process was paused.
    pub pause_max_ms: u64,
    /// The time in which a resumed process reads all that was sent during its pause. Until then it refuses changes.
    pub waking_ms: u64,
    /// About the number of facts to give back in one go. The node reads the log between.
    pub facts_max: usize,
    /// The most entries in one answer: with this many in each round trip a node on another continent still follows tens of
    /// thousands a second. A store that limits a client's output buffer closes the connection of a node that asks for more. So
    /// after each loss the node asks for half as many, until it has caught up.
    pub entries_max: usize,
    /// The fewest entries to ask for: a store that closes the connection over so few has another reason.
    pub entries_min: usize,
    /// The most servers in one question for votes, in a whole reading.
    pub servers_max: usize,
    /// The number of server records or removals that one question asks for.
    pub records_max: usize,
    /// The most changes that wait for the store. The node refuses more.
    pub changes_max: usize,
}

impl Bounds {
    /// The limits of the service.
    pub const USUAL: Self = Self {
        heartbeat_ms: 1_000,
        patience_ms: 3_000,
        answer_min_ms: 300,
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
