//! Faults of the simulated disk, and kills of the process that uses it.

/// The faults from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// How many of the next syncs fail.
    pub(crate) syncs_fail: u32,
    /// How many of the next reads fail.
    pub(crate) reads_fail: u32,
    /// How many of the next looks at a name fail.
    pub(crate) looks_fail: u32,
    /// How many of the next changes fail, syncs aside, and with which error.
    pub(crate) changes_fail: u32,
    pub(crate) errno: i32,
    /// The disk is full: pages without room get none.
    pub(crate) is_full: bool,
    /// A thin volume is full: pages get room in memory, and none at the sync.
    pub(crate) is_thin_and_full: bool,
    /// Nothing can be written.
    pub(crate) is_read_only: bool,
    /// Each sync takes this long.
    pub(crate) sync_takes_ms: i64,
    /// When the process is killed.
    pub(crate) kill: Option<Kill>,
}

/// A fault that strikes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    SyncsFail(u32),
    ReadsFail(u32),
    LooksFail(u32),
    ChangesFail {
        count: u32,
        errno: i32,
    },
    Full,
    ThinAndFull,
    ReadOnly,
    /// Somebody moves the store away.
    MovedAway,
}

impl Faults {
    pub(crate) fn strike(&mut self, strike: Strike) {
        match strike {
            Strike::SyncsFail(count) => self.syncs_fail = count,
            Strike::ReadsFail(count) => self.reads_fail = count,
            Strike::LooksFail(count) => self.looks_fail = count,
            Strike::ChangesFail { count, errno } => (self.changes_fail, self.errno) = (count, errno),
            Strike::Full => self.is_full = true,
            Strike::ThinAndFull => self.is_thin_and_full = true,
            Strike::ReadOnly => self.is_read_only = true,
            Strike::MovedAway => {}
        }
    }
}

/// A moment at which the process is killed, before it learns the outcome of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// At the operation behind this many others. That operation is not done.
    AtOperation(u32),
    /// At the end of a file's sync behind `syncs` others, which fails or not.
    AtSync { syncs: u32, fails: bool },
}
