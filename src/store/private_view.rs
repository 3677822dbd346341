//! A view of a file that is only read: what the library writes when it opens the file stays in memory.
//!
//! The library repairs a file when it opens it. Only afterwards is it known whether the repair may last: the file may
//! be half copied, or another process may be writing it. So the view keeps written pages in front of the file's own,
//! and the steps in their order, to repeat them on the file itself. These pages are few, however large the file is.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use super::disk::{DiskFile, FileLook};

const PAGE_BYTES: u64 = 4_096;

type Page = Box<[u8; PAGE_BYTES as usize]>;

/// A step of the library.
#[derive(Clone)]
pub(super) enum ViewStep {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// The read-only file under the library.
#[derive(Clone)]
pub(super) struct PrivateView {
    file: Arc<dyn DiskFile>,
    /// The file's look when the view began.
    look: FileLook,
    written: Arc<Mutex<Written>>,
}

struct Written {
    /// The file's length as the library sees it.
    bytes_len: u64,
    /// Bytes of the file itself that the library sees: those that it has cut off read as zeros.
    file_bytes: u64,
    pages: BTreeMap<u64, Page>,
    steps: Vec<ViewStep>,
}

impl PrivateView {
    /// A view of the file as it is now, of at most `bytes_max`.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn of(file: Arc<dyn DiskFile>, bytes_max: u64) -> io::Result<Self> {
        let look = file.look()?;
        let bytes_len = look.bytes_len.min(bytes_max);
        let written = Written { bytes_len, file_bytes: bytes_len, pages: BTreeMap::new(), steps: Vec::new() };
        Ok(Self { file, look, written: Arc::new(Mutex::new(written)) })
    }

    /// Whether nothing has written to the file since this view began.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn is_unchanged(&self) -> io::Result<bool> {
        Ok(self.file.look()? == self.look)
    }

    /// Takes the library's steps so far, in their order.
    pub(super) fn take_steps(&self) -> Vec<ViewStep> {
        std::mem::take(&mut self.written().steps)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file's own bytes, and zeros behind them.
    fn read_file(&self, file_bytes: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(file_bytes.saturating_sub(offset)).map_or(out.len(), |bytes| bytes.min(out.len()));
        let (there, behind) = out.split_at_mut(there);
        behind.fill(0);
        if there.is_empty() { Ok(()) } else { self.file.read_exact_at(there, offset) }
    }
}

impl Debug for PrivateView {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("a private view of the store's file")
    }
}

/// The pages that these bytes touch.
fn pages(offset: u64, bytes: usize) -> std::ops::Range<u64> {
    offset / PAGE_BYTES..(offset + bytes as u64).div_ceil(PAGE_BYTES)
}

/// Where a page and a range of bytes meet: in the page, and in the range.
fn common(page: u64, offset: u64, bytes: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let (begin, end) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
    let (from, to) = (begin.max(offset), end.min(offset + bytes as u64));
    // Both ranges are parts of buffers in memory.
    #[expect(clippy::cast_possible_truncation, reason = "within a page, and within the bytes")]
    let part = |of: u64| (from - of) as usize..(to - of) as usize;
    (part(begin), part(offset))
}

impl StorageBackend for PrivateView {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().bytes_len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset + out.len() as u64 > written.bytes_len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(written.file_bytes, offset, out)?;
        for (page, content) in written.pages.range(pages(offset, out.len())) {
            let (in_page, in_out) = common(*page, offset, out.len());
            out[in_out].copy_from_slice(&content[in_page]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        written.bytes_len = len;
        written.file_bytes = written.file_bytes.min(len);
        let kept = len / PAGE_BYTES;
        if let Some(page) = written.pages.get_mut(&kept) {
            page[common(kept, len, PAGE_BYTES as usize).0].fill(0);
        }
        written.pages.split_off(&len.div_ceil(PAGE_BYTES));
        written.steps.push(ViewStep::SetLen(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.written().steps.push(ViewStep::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        written.bytes_len = written.bytes_len.max(offset + data.len() as u64);
        for page in pages(offset, data.len()) {
            if !written.pages.contains_key(&page) {
                let mut content: Page = Box::new([0; PAGE_BYTES as usize]);
                self.read_file(written.file_bytes, page * PAGE_BYTES, &mut content[..])?;
                written.pages.insert(page, content);
            }
            let (in_page, in_data) = common(page, offset, data.len());
            if let Some(content) = written.pages.get_mut(&page) {
                content[in_page].copy_from_slice(&data[in_data]);
            }
        }
        written.steps.push(ViewStep::Write(offset, data.to_vec()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PrivateView, ViewStep};
    use crate::store::directory::DataDirectory;
    use crate::store::disk::{Disk, DiskFile};
    use redb::StorageBackend;
    use std::sync::Arc;

    #[test]
    fn what_is_written_is_seen_and_the_file_stays_until_the_steps_are_taken_on_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk: Arc<dyn Disk> = DataDirectory::at(folder.path());
        let file = disk.open_or_make("file").expect("it is made");
        let first: Vec<u8> = (0..10_000).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
        file.write_all_at(&first, 0).expect("it is written");
        let view = PrivateView::of(Arc::clone(&file), u64::MAX).expect("it is there");
        let mut expected = first.clone();
        let mut numbers = (0_usize..).map(|number| number * 7_919 % 12_289);
        for round in 0..200_u8 {
            let (at, bytes) = (numbers.next().expect("one"), numbers.next().expect("one") % 9_000);
            if round % 10 == 9 {
                expected.resize(at, 0);
                view.set_len(at as u64).expect("it is cut");
            } else {
                let data = vec![round; bytes];
                expected.resize(expected.len().max(at + bytes), 0);
                expected[at..at + bytes].copy_from_slice(&data);
                view.write(at as u64, &data).expect("it is written");
            }
            assert_eq!(view.len().expect("a length"), expected.len() as u64, "{round}");
            let mut seen = vec![0; expected.len()];
            view.read(0, &mut seen).expect("it is read");
            assert!(seen == expected, "{round}");
        }
        assert!(view.is_unchanged().expect("it is looked at"));
        let content = |file: &Arc<dyn DiskFile>| {
            let mut content = vec![0; usize::try_from(file.bytes_len().expect("a length")).expect("short")];
            file.read_exact_at(&mut content, 0).expect("it is read");
            content
        };
        assert_eq!(content(&file), first);
        for step in view.take_steps() {
            match step {
                ViewStep::Write(offset, data) => file.write_all_at(&data, offset).expect("it is written"),
                ViewStep::SetLen(bytes) => file.set_len(bytes).expect("it is cut"),
                ViewStep::Sync => file.sync_data().expect("it is synced"),
            }
        }
        assert_eq!(content(&file), expected);
        assert!(!view.is_unchanged().expect("it is looked at"));
    }

    #[test]
    fn a_sync_is_a_step_between_the_others() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk: Arc<dyn Disk> = DataDirectory::at(folder.path());
        let view = PrivateView::of(disk.open_or_make("file").expect("it is made"), u64::MAX).expect("it is there");
        view.write(0, b"row").expect("it is written");
        view.sync_data().expect("it is noted");
        view.set_len(2).expect("it is cut");
        assert!(matches!(&view.take_steps()[..], [ViewStep::Write(0, _), ViewStep::Sync, ViewStep::SetLen(2)]));
    }
}
