//! A small file system, which a test can fill.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::panicking;

/// A file system of its own, as long as it lives.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    /// A file system of so many bytes, unless none can be mounted here.
    pub(crate) fn mount(at: PathBuf, bytes: u64) -> Option<SmallDisk> {
        fs::create_dir(&at).expect("a folder can be made");
        Self::cover(at, bytes)
    }

    /// The same over a folder that is there.
    pub(crate) fn cover(at: PathBuf, bytes: u64) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=700"), "tmpfs"]).arg(&at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| SmallDisk(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status().is_ok_and(|status| status.success());
        assert!(unmounted || panicking(), "{:?} stays mounted", self.0);
    }
}
