//! The data directory on a real disk: files for their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

use super::disk::{Disk, DiskFile, DiskRoom, FileId, FileLook};

/// The pause between two looks at a file. A program that copies it writes to it more often, unless its disk or network hangs.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// A directory of the file system.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
}

impl DataDirectory {
    /// The directory at `path`, whether it is there or not.
    #[must_use]
    pub fn at(path: &Path) -> Arc<dyn Disk> {
        Arc::new(Self { path: path.to_owned() })
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

impl Disk for DataDirectory {
    fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(options().open(self.path(name))?))
    }

    fn open_to_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(File::open(self.path(name))?))
    }

    fn open_or_make(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(options().create(true).truncate(false).open(self.path(name))?))
    }

    fn identity(&self, name: &str) -> io::Result<FileId> {
        fs::metadata(self.path(name)).map(|metadata| (metadata.dev(), metadata.ino()))
    }

    fn is_taken(&self, name: &str) -> io::Result<bool> {
        match fs::symlink_metadata(self.path(name)) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn room(&self) -> Option<DiskRoom> {
        let found = statvfs(&self.path).ok().filter(|found| found.f_blocks > 0)?;
        Some(DiskRoom {
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            file_bytes_max: getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }

    fn target(&self, name: &str) -> Option<(Arc<dyn Disk>, String)> {
        let link = self.path(name);
        let target = link.is_symlink().then(|| fs::canonicalize(link).ok()).flatten()?;
        Some((Self::at(target.parent()?), target.file_name()?.to_str()?.to_owned()))
    }
}

impl DiskFile for File {
    fn identity(&self) -> io::Result<FileId> {
        self.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    fn look(&self) -> io::Result<FileLook> {
        let metadata = self.metadata()?;
        let written_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Ok(FileLook { bytes_len: metadata.len(), written_ns })
    }

    fn is_changing(&self) -> io::Result<bool> {
        let before = self.look()?;
        sleep(LOOKS_APART);
        Ok(self.look()? != before)
    }

    fn bytes_len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        Self::set_len(self, bytes)
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, out, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Self::sync_data(self)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match Self::try_lock(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DataDirectory;
    use crate::store::disk::FileLook;
    use std::fs::{File, create_dir};
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn only_a_file_that_is_away_counts_as_removed() {
        let folder = tempfile::tempdir().expect("a directory");
        let disk = DataDirectory::at(folder.path());
        disk.remove("votes.redb").expect("it is away");
        create_dir(folder.path().join("votes.redb")).expect("a directory can be made");
        disk.remove("votes.redb").expect_err("a directory is no file that can be removed");
    }

    #[test]
    fn the_look_of_a_file_has_the_nanosecond_of_its_last_write() {
        let folder = tempfile::tempdir().expect("a directory");
        let disk = DataDirectory::at(folder.path());
        let file = disk.open_or_make("votes.redb").expect("it is made");
        file.set_len(3).expect("it has room");
        let written_at = UNIX_EPOCH + Duration::new(2, 7);
        let same = File::options().write(true).open(folder.path().join("votes.redb")).expect("it is there");
        same.set_modified(written_at).expect("its time can be set");
        assert!(matches!(file.look(), Ok(FileLook { bytes_len: 3, written_ns: 2_000_000_007 })));
    }

    #[test]
    fn a_name_is_taken_by_whatever_has_it() {
        let folder = tempfile::tempdir().expect("a directory");
        let disk = DataDirectory::at(&folder.path().join("data"));
        assert!(!disk.is_taken("").expect("it is not there yet"));
        disk.make().expect("it can be made");
        assert!(disk.is_taken("").expect("it is there"));
        let file = disk.open_or_make("votes.redb").expect("it is made");
        assert!(disk.is_taken("votes.redb").expect("it is there"));
        assert!(!disk.is_taken("other").expect("nothing has the name"));
        assert!(!disk.is_taken("votes.redb/other").expect("a file is no directory"));
        disk.is_taken(&"x".repeat(300)).expect_err("no name is so long");

        disk.rename("votes.redb", "other").expect("it can be renamed");
        assert!(!disk.is_taken("votes.redb").expect("it has gone") && disk.is_taken("other").expect("it is there"));
        assert_eq!(disk.identity("other").expect("it is there"), file.identity().expect("it is open"));
        let new = disk.open_or_make("votes.redb").expect("it is made");
        assert_ne!(new.identity().expect("it is open"), file.identity().expect("it is open"));
        assert_ne!(disk.identity("votes.redb").expect("it is there"), disk.identity("other").expect("it is there"));
    }

    #[test]
    fn the_target_of_a_link_has_a_directory_of_its_own() {
        let folder = tempfile::tempdir().expect("a directory");
        let (disk, other) = (DataDirectory::at(folder.path()), folder.path().join("other"));
        create_dir(&other).expect("a directory can be made");
        File::create(other.join("elsewhere.redb")).expect("a file can be made");
        symlink(other.join("elsewhere.redb"), folder.path().join("votes.redb")).expect("a link can be made");
        let (there, name) = disk.target("votes.redb").expect("it is a link");
        assert_eq!(name, "elsewhere.redb");
        assert!(there.is_taken("elsewhere.redb").expect("it is there"));
        assert!(there.target("elsewhere.redb").is_none(), "a file has no target");
    }

    #[test]
    fn one_process_at_a_time_has_the_lock() {
        let folder = tempfile::tempdir().expect("a directory");
        let disk = DataDirectory::at(folder.path());
        let first = disk.open_or_make("votes.redb").expect("it is made");
        assert!(first.try_lock().expect("it can be locked"));
        let second = disk.open("votes.redb").expect("it is there");
        assert!(!second.try_lock().expect("it tells"));
        drop(first);
        assert!(second.try_lock().expect("it can be locked"));
    }

    #[test]
    fn a_file_that_is_written_to_is_changing() {
        let folder = tempfile::tempdir().expect("a directory");
        let disk = DataDirectory::at(folder.path());
        let file = disk.open_or_make("votes.redb").expect("it is made");
        assert!(!file.is_changing().expect("it can be looked at"));
        let (writer, is_done) = (disk.open("votes.redb").expect("it is there"), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                for length in (1..).take_while(|_| !is_done.load(Ordering::Relaxed)) {
                    writer.set_len(length).expect("it has room");
                }
            });
            // The other thread may begin late.
            let is_changing = (0..1_000).any(|_| file.is_changing().expect("it can be looked at"));
            is_done.store(true, Ordering::Relaxed);
            assert!(is_changing);
        });
    }

    #[test]
    fn a_file_system_without_blocks_tells_of_no_room() {
        assert!(DataDirectory::at(Path::new("/proc")).room().is_none());
        let folder = tempfile::tempdir().expect("a directory");
        assert!(DataDirectory::at(folder.path()).room().is_some_and(|room| room.free_bytes <= room.total_bytes));
    }
}
