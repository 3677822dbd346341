//! The store's file under the library. The file is locked and observed. On a full disk, a commit that makes room may
//! use the reserve.
//!
//! The library tells a failed commit from a failed sync only by an error number. After a failed sync a vote may be in
//! the file all the same, so this module watches the writes to the file. After a failed sync, or after something else
//! wrote to the file, nothing in it counts. The file is void then, and is neither read nor written any more.

use std::cell::Cell;
use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Builder, Database, DatabaseError, RepairSession, StorageBackend};

use super::commit_marker::CommitMarker;
use super::disk::{DiskFile, is_disk_full};
use super::private_view::{PrivateView, ViewStep};
use super::room::Room;
use crate::slices::Slices;

/// Memory for pages of the file, in bytes. Little is enough: the table answers questions, and the system caches pages
/// too. A start that writes the store anew has two files open, and takes at most 1.15 times the memory of a run.
pub(super) const CACHE_BYTES: usize = 2 << 20;

/// The progress that the library reports while a repair undoes the last commit.
const UNDOING: Range<f64> = 0.1..0.5;

/// The repair that the library made to a file that it opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    /// None: the file was closed in order. The library did not check its pages.
    None,
    /// The library read the whole file, and found it sound.
    Verified,
    /// The library undid the last commit; the rest is sound.
    Undone,
}

/// Reading or writing this many bytes counts as work on one row of a slice.
const SLICE_ROW_BYTES: usize = 1_024;

/// The library's header. Each commit changes it.
const HEADER_BYTES: usize = 320;

/// The store's file. The library uses its first part.
pub(super) struct StoreFile {
    file: Arc<dyn DiskFile>,
    room: Arc<Room>,
    marker: Arc<CommitMarker>,
    /// Bytes that the library uses.
    used: AtomicU64,
    /// The header as it was read or written last.
    header: Mutex<Vec<u8>>,
    /// The header before the last commit began; None before the first.
    header_before: Mutex<Option<Vec<u8>>>,
    is_header_written: AtomicBool,
    is_sync_begun: AtomicBool,
    /// Whether a sync has failed, or something else wrote to the file. A void file is not touched any more.
    is_void: AtomicBool,
    /// The system's number of the last read error; 0 for none.
    read_error: AtomicI32,
    /// Whether the present writes may use the reserve.
    uses_reserve: AtomicBool,
    /// Bytes read and written since the recorder gave way to readers.
    slices: Mutex<Slices>,
    /// The view between the library and the file, until it is known that the file may be written.
    view: Mutex<Option<PrivateView>>,
}

impl StoreFile {
    /// Locks `file`.
    ///
    /// # Errors
    /// The system's error; [`DatabaseError::DatabaseAlreadyOpen`] where another process has the file locked.
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        room: &Arc<Room>,
        marker: &Arc<CommitMarker>,
    ) -> Result<Arc<Self>, DatabaseError> {
        if !file.try_lock()? {
            return Err(DatabaseError::DatabaseAlreadyOpen);
        }
        let used = file.bytes_len()?;
        let file = Self {
            used: AtomicU64::new(used),
            file,
            room: Arc::clone(room),
            marker: Arc::clone(marker),
            header: Mutex::default(),
            header_before: Mutex::default(),
            is_header_written: AtomicBool::default(),
            is_sync_begun: AtomicBool::default(),
            is_void: AtomicBool::default(),
            read_error: AtomicI32::default(),
            uses_reserve: AtomicBool::new(true),
            slices: Mutex::default(),
            view: Mutex::default(),
        };
        *file.header() = file.read_header()?;
        Ok(Arc::new(file))
    }

    /// Counts bytes that were read or written. A large commit moves thousands of pages.
    fn give_way(&self, bytes: usize) {
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        slices.done(1 + bytes / SLICE_ROW_BYTES);
    }

    /// Opens the library on the file.
    ///
    /// # Errors
    /// The error of the system or of the library.
    pub(super) fn library(self: &Arc<Self>) -> Result<Database, DatabaseError> {
        Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(StoreBackend(Arc::clone(self)))
    }

    /// Opens the library on the file, and writes nothing to the file until [`StoreFile::settle`]. If the file is void,
    /// pages that the library writes at opening would last, and name others that do not. A power cut would then leave
    /// neither the last commit nor the one before. The library sees at most `bytes_max` of the file.
    ///
    /// # Errors
    /// The error of the system or of the library.
    pub(super) fn look_at(self: &Arc<Self>, bytes_max: u64) -> Result<(Database, Repair), DatabaseError> {
        let view = PrivateView::of(Arc::clone(&self.file), bytes_max)?;
        // The file may have grown since it was opened.
        self.used.store(view.len()?, Ordering::Relaxed);
        *self.header() = self.read_header()?;
        *self.view() = Some(view);
        let done = Rc::new(Cell::new(Repair::None));
        let told = Rc::clone(&done);
        // The library reports the progress of a repair, and undoes a commit at one stage of it.
        let tell = move |session: &mut RepairSession| {
            let now = if UNDOING.contains(&session.progress()) { Repair::Undone } else { Repair::Verified };
            told.set(told.get().max(now));
        };
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES).set_repair_callback(tell);
        let database = builder.create_with_backend(StoreBackend(Arc::clone(self)))?;
        Ok((database, done.get()))
    }

    /// Writes to the file what the library has written at opening. From now on the library writes to the file itself.
    ///
    /// # Errors
    /// The system's error; then the file is void.
    pub(super) fn settle(self: &Arc<Self>) -> io::Result<()> {
        let Some(view) = self.view().take() else { return Ok(()) };
        let through = StoreBackend(Arc::clone(self));
        let taken = view.take_steps().into_iter().try_for_each(|step| match step {
            ViewStep::Write(offset, data) => through.write(offset, &data),
            ViewStep::SetLen(bytes) => through.set_len(bytes),
            ViewStep::Sync => through.sync_data(),
        });
        // The library believes that all of it is written.
        taken.inspect_err(|_| self.is_void.store(true, Ordering::Relaxed))
    }

    /// Whether the library's writes stay in memory.
    pub(super) fn is_private(&self) -> bool {
        self.view().is_some()
    }

    /// Whether nothing has written to the file since it was looked at.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn is_as_looked_at(&self) -> io::Result<bool> {
        let view = self.view().clone();
        view.map_or(Ok(true), |view| view.is_unchanged())
    }

    /// Whether something else is writing to the file.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn is_changing(&self) -> io::Result<bool> {
        self.file.is_changing()
    }

    fn view(&self) -> MutexGuard<'_, Option<PrivateView>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing in the file counts: a sync has failed, or something else wrote to the file.
    pub(super) fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }

    fn void(&self) {
        self.is_void.store(true, Ordering::Relaxed);
        self.marker.void();
    }

    /// The system's last read error, if any. The library may take it for damage.
    pub(super) fn read_error(&self) -> Option<io::Error> {
        Some(self.read_error.load(Ordering::Relaxed)).filter(|number| *number != 0).map(io::Error::from_raw_os_error)
    }

    /// Checks that the file is long enough, and that its header is the last one read or written. Cheap.
    ///
    /// # Errors
    /// The change of the file, which is void from then on; or the system's error where the file cannot be read, which
    /// proves nothing.
    pub(super) fn check(&self) -> io::Result<()> {
        self.check_length()?;
        // The known header of a new file is shorter.
        if !self.read_header()?.starts_with(&self.header()) {
            return Err(self.changed("something else has written to it"));
        }
        Ok(())
    }

    /// Gives the file's length, after a check that nothing else has cut it.
    fn check_length(&self) -> io::Result<u64> {
        let length = self.file.bytes_len()?;
        if length < self.used() {
            return Err(self.changed(&format!("something else has cut it to {length} bytes")));
        }
        Ok(length)
    }

    /// Something else has changed the file, which is void from now on.
    fn changed(&self, what: &str) -> io::Error {
        self.void();
        io::Error::new(ErrorKind::InvalidData, what)
    }

    fn read_header(&self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.file.bytes_len()?).unwrap_or(HEADER_BYTES);
        let mut header = vec![0; HEADER_BYTES.min(length)];
        self.file.read_exact_at(&mut header, 0)?;
        Ok(header)
    }

    fn header(&self) -> MutexGuard<'_, Vec<u8>> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn header_before(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.header_before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to touch a void file.
    fn refuse_void(&self) -> io::Result<()> {
        if self.is_void() { Err(io::Error::other("nothing in the file counts any more")) } else { Ok(()) }
    }

    /// Bytes that the library uses.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The file's length on the disk, as far as is known.
    pub(super) fn bytes_len(&self) -> u64 {
        self.file.bytes_len().unwrap_or(0)
    }

    /// Begins a commit. Only a commit that drops votes may use the reserve.
    pub(super) fn begin(&self, drops: bool) {
        *self.header_before() = Some(self.header().clone());
        self.is_header_written.store(false, Ordering::Relaxed);
        self.is_sync_begun.store(false, Ordering::Relaxed);
        self.uses_reserve.store(drops, Ordering::Relaxed);
    }

    /// Ends a commit. Opening and closing, which may follow, may use the reserve.
    pub(super) fn end(&self) {
        self.uses_reserve.store(true, Ordering::Relaxed);
    }

    /// Takes a failed commit back, if it has not come to its sync; gives whether it may be in the file all the same.
    /// The library writes the header first. If the page that could not be written already held the same content, then
    /// the file shows a whole commit.
    pub(super) fn take_back(self: &Arc<Self>) -> bool {
        if self.is_sync_begun.load(Ordering::Relaxed) {
            return true;
        }
        let before = self.header_before().take().filter(|_| self.is_header_written.load(Ordering::Relaxed));
        before.is_some_and(|before| StoreBackend(Arc::clone(self)).write(0, &before).is_err())
    }

    /// Cuts `bytes` off the end of the file, if the library uses neither these nor the `kept` bytes before them.
    pub(super) fn cut_spare(&self, kept: u64, bytes: u64) -> bool {
        let Ok(length) = self.file.bytes_len() else { return false };
        let left = length.saturating_sub(bytes);
        left >= self.used() + kept && self.file.set_len(left).is_ok()
    }

    /// Sets the length that the library sees. Where room is scarce the file itself keeps its length: the library writes
    /// pages that it takes again whole before it reads them.
    fn set_used(&self, used: u64) -> io::Result<()> {
        // A longer file would hide that it was cut.
        let length = self.check_length()?;
        if used > length || (used < length && !self.room.is_scarce()) {
            self.file.set_len(used)?;
        }
        self.used.store(used, Ordering::Relaxed);
        Ok(())
    }

    /// Does `work` that takes `bytes`. While the disk is full, gives up that much of the reserve and does the work
    /// again. No more at a time, and at once: another writer takes any free room.
    fn with_reserve(&self, bytes: usize, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let uses_reserve = || self.uses_reserve.load(Ordering::Relaxed);
        loop {
            match work() {
                Err(error) if is_disk_full(&error) && uses_reserve() && self.room.give(bytes as u64) => {}
                outcome => return outcome,
            }
        }
    }
}

/// The file under the library.
struct StoreBackend(Arc<StoreFile>);

impl Debug for StoreBackend {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("the store's file")
    }
}

impl StorageBackend for StoreBackend {
    fn len(&self) -> io::Result<u64> {
        let view = self.0.view().clone();
        view.map_or_else(|| Ok(self.0.used()), |view| view.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let view = self.0.view().clone();
        let read = match view {
            Some(view) => view.read(offset, out),
            None => self.0.refuse_void().and_then(|()| self.0.file.read_exact_at(out, offset)),
        };
        self.0.give_way(out.len());
        read.inspect_err(|error| {
            self.0.read_error.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if let Some(view) = &*self.0.view() {
            return view.set_len(len);
        }
        self.0.refuse_void()?;
        self.0.with_reserve(0, || self.0.set_used(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Some(view) = &*self.0.view() {
            return view.sync_data();
        }
        self.0.refuse_void()?;
        // The library also syncs after it extends the file, long before the header names the commit.
        if self.0.is_header_written.load(Ordering::Relaxed) {
            self.0.is_sync_begun.store(true, Ordering::Relaxed);
        }
        self.0.with_reserve(1, || self.0.marker.begin_sync())?;
        self.0.file.sync_data().inspect_err(|_| self.0.void())?;
        self.0.marker.end_sync();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(view) = &*self.0.view() {
            return view.write(offset, data);
        }
        self.0.refuse_void()?;
        let header = (offset == 0).then(|| &data[..data.len().min(HEADER_BYTES)]);
        if header.is_some() {
            // The next header must not hide what something else did to the file.
            self.0.check()?;
        }
        self.0.with_reserve(data.len(), || self.0.file.write_all_at(data, offset))?;
        if let Some(header) = header {
            // A part of a header names no commit: the library checks it by a checksum.
            self.0.is_header_written.store(true, Ordering::Relaxed);
            header.clone_into(&mut self.0.header());
        }
        self.0.give_way(data.len());
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        if self.0.view().is_some() {
            return Ok(());
        }
        self.0.refuse_void()?;
        self.0.set_used(self.0.used())
    }
}
