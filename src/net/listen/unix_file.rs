//! The file of a Unix socket. It outlives its process unless that removes it, and a file that was
//! left behind blocks the next start.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Tries to lock a folder that another process has locked, and the pause between two tries. Binding takes far less: a
/// process that keeps the lock longer is no instance of this service.
const LOCK_TRIES_MAX: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A socket file that this process has made. Dropping it removes the file, unless another file
/// stands in its place by then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: SocketFileId,
}

/// Device, inode number and birth time of a file; `None` if the file system knows no birth time. An inode number is
/// used again once its file is gone. The time of the last change is no part: an operator's `chgrp` changes it.
type SocketFileId = (u64, u64, Option<SystemTime>);

impl SocketFile {
    /// The file at `path`, which was made just now, from here on with the permissions `mode`.
    ///
    /// # Errors
    /// Where the permissions cannot be set.
    pub fn made(path: &Path, mode: u32) -> io::Result<Self> {
        let file = Self { path: path.to_owned(), identity: identity(path)? };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(file)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _alone = lock_folder(&self.path);
        if identity(&self.path).is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            log::warn!("cannot take {} away: {error}", self.path.display());
        }
    }
}

fn identity(path: &Path) -> io::Result<SocketFileId> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino(), file.created().ok()))
}

/// Keeps other instances of the service from making or removing sockets beside `path` until the lock
/// is dropped. Without it, a socket that does not listen yet looks like one that was left behind.
/// `None` if the folder cannot be locked: no start is refused for that.
pub fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..LOCK_TRIES_MAX {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE),
            Err(TryLockError::Error(_)) => return None,
        }
    }
    None
}

/// Removes the socket file that an ended process has left at `path`.
///
/// # Errors
/// [`ErrorKind::AddrInUse`] if a process answers there, [`ErrorKind::AlreadyExists`] if the file is
/// no socket, others as the system says.
pub fn make_way(path: &Path) -> io::Result<()> {
    let file = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    if !file.file_type().is_socket() {
        let why = "what is there is no socket: move it away, or give another path";
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    // A crowded listener would make the probe wait.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&probe, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN) => Err(ErrorKind::AddrInUse.into()),
        Err(Errno::CONNREFUSED) => {
            log::info!("{} was left by a process that has ended: it is replaced", path.display());
            fs::remove_file(path)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::SocketFile;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_file_is_taken_away_by_its_maker_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("bound");
        let file = SocketFile::made(&path, 0o640).expect("made");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // Another instance has put its own file there.
        fs::rename(&path, folder.path().join("old")).expect("moved");
        let other = UnixListener::bind(&path).expect("bound");
        let others = SocketFile::made(&path, 0o600).expect("made");
        drop(file);
        assert!(path.exists(), "another's file is gone");
        drop(others);
        assert!(!path.exists(), "the file was left");
        drop((listener, other));
    }
}
