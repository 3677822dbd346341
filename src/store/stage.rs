//! How far the library has come with a commit, and how much of the room that is kept back it may use.
//!
//! The library tells a failed commit from a failed sync no more than by an error number. Whether a
//! vote may be in the file all the same hangs on which of the two it was, so what goes through to
//! the file is watched.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::StorageBackend;

/// Shared by the store and the file under the library; all of it happens on the recorder's thread.
#[derive(Debug, Default)]
pub struct CommitStage {
    is_header_written: AtomicBool,
    is_sync_begun: AtomicBool,
    /// So many hundredths of the room that is kept back are not for this commit.
    reserved_percent: AtomicU64,
}

/// What a commit needs the room that is kept back for, on a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It makes the store larger: it gets none.
    More,
    /// It takes the place of votes that were dropped. Their pages are free, but the library may
    /// choose one that no block of the disk is behind yet. It gets half: the other half is for the
    /// next votes to be dropped.
    InPlace,
    /// It drops votes: it gets all.
    Drop,
}

impl CommitStage {
    /// A commit begins.
    pub(super) fn begin(&self, purpose: Purpose) {
        self.is_header_written.store(false, Ordering::Relaxed);
        self.is_sync_begun.store(false, Ordering::Relaxed);
        let percent = match purpose {
            Purpose::More => 100,
            Purpose::InPlace => 50,
            Purpose::Drop => 0,
        };
        self.reserved_percent.store(percent, Ordering::Relaxed);
    }

    /// It has ended. What follows, opening and closing, may use the room that is kept back.
    pub(super) fn end(&self) {
        self.reserved_percent.store(0, Ordering::Relaxed);
    }

    /// Whether the commit that failed had come to its sync: it may be in the file.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_sync_begun.load(Ordering::Relaxed)
    }

    pub(super) fn reserved_percent(&self) -> u64 {
        self.reserved_percent.load(Ordering::Relaxed)
    }

    fn note_write(&self, offset: u64) {
        if offset == 0 {
            self.is_header_written.store(true, Ordering::Relaxed);
        }
    }

    /// A file that is made longer is synced as well, long before the header names the commit.
    fn note_sync(&self) {
        if self.is_header_written.load(Ordering::Relaxed) {
            self.is_sync_begun.store(true, Ordering::Relaxed);
        }
    }
}

/// What the library works on, watched.
pub struct Watched<B> {
    inner: B,
    stage: Arc<CommitStage>,
}

impl<B: StorageBackend> Watched<B> {
    /// `inner`, of which `stage` is told.
    pub fn new(inner: B, stage: &Arc<CommitStage>) -> Self {
        Self { inner, stage: Arc::clone(stage) }
    }
}

impl<B> Debug for Watched<B> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("the store's file")
    }
}

impl<B: StorageBackend> StorageBackend for Watched<B> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.stage.note_sync();
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.stage.note_write(offset);
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}
