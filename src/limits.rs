//! The bounds that modules share, and those that an operator may change ([`Limits`]), with their reasons. A bound of
//! one module stands in that module.

/// The most bytes of one read, and of one turn of work for one connection. While more waits to be sent, the connection
/// is not read from.
pub const TURN_BYTES_MAX: usize = 64 * 1024;
/// Default bound on the memory of all connections together; less on a small machine: see [`BUFFER_MACHINE_PART`].
pub const BUFFER_BYTES_MAX_DEFAULT: u64 = 256 * 1024 * 1024;
/// By default, the memory of all connections is at most the machine's divided by this.
pub const BUFFER_MACHINE_PART: u64 = 8;
/// The least bound that an operator can set: room for some requests and answers of the largest kind.
pub const BUFFER_BYTES_MAX_FLOOR: u64 = 1024 * 1024;
/// A worker tells the others what its connections use in steps of this size, or once a turn.
pub const BUFFER_PIECE_BYTES: u64 = 256 * 1024;
/// The fewest bytes that a turn takes up for each connection, however little memory is left.
pub const TURN_BYTES_MIN: usize = 4 * 1024;
/// A client that neither sends nor takes anything for this long is stalled, in milliseconds: its connection gives up
/// memory before others that use as much.
pub const STALLED_MS: u64 = 1_000;
/// Connections that give up their memory in one turn of a worker, so that the others have their turn.
pub const CUTS_PER_TURN: usize = 64;
/// Room for answers that a worker keeps from one turn to the next.
pub const OUT_KEPT_BYTES_MAX: usize = 256 * 1024;
/// Connections taken from one listening socket in a turn, so that a rush of newcomers does not
/// hold up clients that are served already.
pub const ACCEPTS_PER_TURN: usize = 64;
/// Readiness events taken from the kernel at once: a newcomer waits for all of them.
pub const EVENTS_PER_TURN: usize = 256;
/// Connections that continue unfinished work of the last turn in one turn. Thousands of long pipelines would make a
/// turn so long that clients with one question wait for seconds.
pub const RESUMED_PER_TURN: usize = 64;
/// Waiting requests that are answered in one turn for one reason: other connections have their turn in between. There
/// are four reasons: a few were woken, a crowd was woken, their time is over, or their slots or memory are needed.
pub const WOKEN_PER_TURN: usize = 16;
/// Once the poll reports a request, at most this many waiting requests are answered before it.
pub const TOLD_BEFORE_OTHERS_MAX: usize = 4 * WOKEN_PER_TURN;
/// Waiting requests whose time is over are answered at whole multiples of this, in milliseconds: never early, and at
/// most this late. One turn then serves several clients, which also ask again together.
pub const WAITS_END_EVERY_MS: u64 = 250;
/// Pending connections that the kernel holds for one listening socket.
pub const LISTEN_BACKLOG: i32 = 4_096;
/// The most bytes that are read and dropped while the server closes on a client that still sends. Without this, a reset
/// could lose the last answer.
pub const LINGER_BYTES_MAX: usize = 1024 * 1024;
/// How long the server reads on, in milliseconds: see [`LINGER_BYTES_MAX`].
pub const LINGER_TIMEOUT_MS: u64 = 2_000;
/// How long a worker that leaves gives a client to ask before it closes the connection as idle, in milliseconds. If the
/// connection is closed as a request arrives, the client sees a reset.
pub const DRAIN_GRACE_MS: u64 = 500;
/// Connections above the maximum that each worker keeps, just long enough for them to be told 503 or to take a last
/// answer. Fewer where descriptors are few: see [`Shares`].
pub const TURNED_AWAY_MAX: usize = 256;
/// While all slots are taken, how long a client may send nothing or take nothing of its answer, in milliseconds: far
/// more than a round trip. A crowd of silent connections takes as many slots from waiting requests as come in this
/// time, and no more.
pub const STUCK_MS: u64 = 1_000;
/// The connections of one network that have not asked are a crowd if they hold more than all slots divided by this.
pub const CROWD_PART: usize = 16;
/// How long a worker stops accepting when the system has no descriptor left and none can be freed, in milliseconds.
pub const ACCEPT_PAUSE_MS: u64 = 50;
/// Descriptors kept back from `--max-connections` for the store, signals and standard streams.
pub const DESCRIPTORS_KEPT: usize = 64;
/// Descriptors that one worker takes besides its connections: two polls, a mailbox, some listeners.
pub const DESCRIPTORS_PER_WORKER: usize = 8;
/// The most open connections to the control listener; fewer where descriptors are few: see [`Shares`]. Far more than a
/// site needs: while slots are free, a crowd without the key holds up no other client.
pub const CONTROL_CONNECTIONS_MAX: usize = 8_192;
/// The largest default of `--max-connections`: the kernel holds some KB for each connection, and a slot here takes 0.3
/// KB, which is kept for the next one. The memory that connections use has its own bound.
pub const CONNECTIONS_MAX_DEFAULT: usize = 65_536;
/// The most votes and servers in commands that wait for the recorder: as many as 16 full commits. A request beyond is
/// told that the store is unavailable. At the bound votes take some 150 MB, and servers with tokens of their own up to
/// four times as much.
pub const RECORDER_LINES_MAX: usize = 16 * COMMIT_EVENTS_MAX;
/// The fewest lines that a waiting command counts as: no more than 65,536 commands wait.
pub const COMMAND_LINES_MIN: usize = 32;
/// Lines that wait to be written to the log; more are dropped and counted.
pub const LOG_QUEUE_MAX: usize = 1_024;
/// How long an ending process waits for its last log lines to be read, in milliseconds.
pub const LOG_FLUSH_MS: u64 = 1_000;
/// A commit takes no further command once it has this many votes and changes. The number is high, as an import's votes
/// lie all over the file.
pub const COMMIT_EVENTS_MAX: usize = 131_072;
/// The most bytes of a client's text that are quoted back to it: enough to find the place.
pub const ECHO_BYTES_MAX: usize = 200;
/// Longest line of a batch, in bytes.
pub const BATCH_LINE_BYTES_MAX: usize = 4_096;
/// Largest answer to a batch, in bytes: of many refused lines, it names the first ones.
pub const BATCH_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Votes that are sorted at once where the store is written anew, 20 bytes each. Each slice costs a walk through the
/// table.
pub const RENEWAL_SLICE_ROWS: usize = 1 << 20;
/// The fewest slices in which the store is written anew. Sorting then takes at most 2.5 bytes for each vote, where the
/// table takes 14 or more: a start that writes the store anew should need little more memory than the run before it.
pub const RENEWAL_SLICES_MIN: usize = 8;
/// Servers on one page of a listing, by default.
pub const PAGE_SERVERS_DEFAULT: usize = 100;
/// The most servers on one page of a listing.
pub const PAGE_SERVERS_MAX: usize = 1_000;

const _: () = assert!(TURN_BYTES_MAX >= 16 * 1024, "room for an answer");
const _: () = assert!(LINGER_BYTES_MAX >= TURN_BYTES_MAX);

/// Bounds that are options of `serve`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a request's head: request line, header lines and the empty line.
    pub head_bytes_max: usize,
    /// Header lines of a request.
    pub header_lines_max: usize,
    /// Content of a control request that is read whole, in bytes.
    pub body_bytes_max: u64,
    /// Content of a public request, which is skipped, in bytes.
    pub skip_body_bytes_max: u64,
    /// A request must be whole this long after its first byte, in milliseconds.
    pub head_timeout_ms: u64,
    /// An idle connection is closed after this, in milliseconds.
    pub idle_timeout_ms: u64,
    /// The peer must take an unsent answer within this, in milliseconds.
    pub write_timeout_ms: u64,
    /// The memory that all connections may use together, those of the control listener too, in bytes.
    pub buffer_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            header_lines_max: 100,
            body_bytes_max: 1024 * 1024,
            skip_body_bytes_max: 64 * 1024,
            head_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            write_timeout_ms: 30_000,
            buffer_bytes_max: BUFFER_BYTES_MAX_DEFAULT,
        }
    }
}

impl Limits {
    /// Largest head that can be configured: head and read must fit one buffer.
    pub const HEAD_BYTES_CEILING: usize = 64 * 1024;
}

/// How the descriptors of a process are shared out. All shares together are never more than there are: a process that
/// runs out of descriptors can only let newcomers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Open public connections over all workers.
    pub connections_max: usize,
    /// Open connections to the control listener.
    pub control_connections_max: usize,
    /// Connections above the maximum that each public worker keeps, and so does the control listener's.
    pub turned_away_max: usize,
}

impl Shares {
    /// Requests that may wait, by default: a quarter of the connections is left for clients that ask at once.
    #[must_use]
    pub const fn waiting_max_default(&self) -> usize {
        self.connections_max / 4 * 3
    }

    /// The shares of `descriptors` with this many public workers. Some descriptors are kept for other uses than
    /// connections. Of the rest, an eighth at most goes to connections that are turned away, and a quarter at most to
    /// the control listener. If an operator `asked` for more public connections than that leaves, they come out of the
    /// control listener's part, down to a sixteenth.
    #[must_use]
    pub fn of(descriptors: usize, workers: usize, asked: Option<usize>) -> Self {
        let loops = workers + 1;
        let kept = DESCRIPTORS_KEPT.min(descriptors / 4) + loops * DESCRIPTORS_PER_WORKER;
        let rest = descriptors.saturating_sub(kept);
        let turned_away_max = (rest / 8 / loops).clamp(1, TURNED_AWAY_MAX);
        let rest_for_control = rest.saturating_sub(loops * turned_away_max + asked.unwrap_or(0)).max(rest / 16);
        let control_connections_max = (rest / 4).min(rest_for_control).clamp(1, CONTROL_CONNECTIONS_MAX);
        let taken = control_connections_max + loops * turned_away_max;
        Self { connections_max: rest.saturating_sub(taken).max(1), control_connections_max, turned_away_max }
    }
}

#[cfg(test)]
mod tests {
    use super::{DESCRIPTORS_PER_WORKER, Shares};

    #[test]
    fn shares_are_what_there_is_and_no_more() {
        let shares = |connections_max, control_connections_max, turned_away_max| Shares {
            connections_max,
            control_connections_max,
            turned_away_max,
        };
        assert_eq!(Shares::of(256, 1, None), shares(110, 44, 11));
        assert_eq!(Shares::of(256, 4, None), shares(99, 38, 3));
        assert_eq!(Shares::of(1_024, 2, None), shares(585, 234, 39));
        assert_eq!(Shares::of(20_000, 2, None), shares(14_166, 4_978, 256));
        assert_eq!(Shares::of(131_072, 8, None), shares(120_440, 8_192, 256));
        assert_eq!(Shares::of(20_000, 2, Some(9_000)), shares(14_166, 4_978, 256));
        assert_eq!(Shares::of(20_000, 2, Some(15_100)), shares(15_100, 4_044, 256));
        assert_eq!(Shares::of(20_000, 2, Some(1_000_000)), shares(17_900, 1_244, 256));
        for descriptors in 128..5_000 {
            for workers in 1..8 {
                let asked = (descriptors % 2 == 0).then_some(descriptors * workers / 8);
                let Shares { connections_max, control_connections_max, turned_away_max } =
                    Shares::of(descriptors, workers, asked);
                let all = connections_max
                    + control_connections_max
                    + (workers + 1) * (turned_away_max + DESCRIPTORS_PER_WORKER);
                assert!(all <= descriptors, "{all} of {descriptors}");
            }
        }
    }
}
