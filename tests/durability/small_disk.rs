//! Small file systems that a test can fill.

use crate::util::needs::left_out;
use crate::util::package::text;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::panicking;

/// A mounted file system. Dropping it unmounts it.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    /// A file system of this size. Where none can be mounted, prints that and gives `None`.
    pub(crate) fn mount(at: PathBuf, bytes: u64) -> Option<SmallDisk> {
        fs::create_dir_all(&at).expect("a folder can be made");
        let options = format!("size={bytes},mode=700");
        if run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", text(&at)]) {
            return Some(SmallDisk(at));
        }
        left_out("nothing can be mounted here");
        None
    }

    /// Remounts the file system with other options.
    pub(crate) fn remount(&self, options: &str) {
        assert!(run("mount", &["-o", &format!("remount,{options}"), text(&self.0)]), "{options}");
    }

    /// Fills the file system with another file.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.0.join("filler")).expect("a file can be made");
        for part in [64 * 1024, 4 * 1024, 1] {
            while file.write(&vec![1; part]).is_ok_and(|written| written > 0) {}
        }
    }

    /// Removes that file.
    pub(crate) fn free(&self) {
        fs::remove_file(self.0.join("filler")).expect("the file can be removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The kernel may hold a loop device for a moment after its end. A container that was started meanwhile holds a
        // copy of the mount for as long as it runs.
        let is_unmounted = run("umount", &[text(&self.0)]) || run("umount", &["--lazy", text(&self.0)]);
        assert!(is_unmounted || panicking(), "it stays mounted");
    }
}

/// An ext4 file system on a device that claims more room than the small disk below it has. Once that disk is full, the
/// kernel's writes fail behind the service's back.
pub(crate) struct ThinDisk {
    pub(crate) pool: SmallDisk,
    pub(crate) at: PathBuf,
    device: String,
}

impl ThinDisk {
    /// A file system that claims `bytes`, on a pool of `pool_bytes`. Where none can be mounted, prints that and gives `None`.
    pub(crate) fn mount(folder: &Path, pool_bytes: u64, bytes: u64) -> Option<ThinDisk> {
        let pool = SmallDisk::mount(folder.join("pool"), pool_bytes)?;
        let (image, at) = (pool.0.join("image"), folder.join("volume"));
        File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file can be made");
        fs::create_dir(&at).expect("a folder can be made");
        let mut attach = Command::new("losetup");
        let attached = attach.args(["--find", "--show"]).arg(&image).stderr(Stdio::null()).output();
        let device = attached.ok().filter(|attached| attached.status.success());
        let device = device.and_then(|attached| String::from_utf8(attached.stdout).ok());
        let disk = device.map(|device| ThinDisk { pool, at, device: device.trim().to_owned() });
        let is_made = |disk: &ThinDisk| run("mkfs.ext4", &["-q", "-m", "0", "-E", "nodiscard", &disk.device]);
        let disk = disk.filter(|disk| is_made(disk) && disk.attach());
        if disk.is_none() {
            left_out("no loop device can be mounted here");
        }
        disk
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.at.join("data")
    }

    /// Unmounts the file system, so that nothing of it is cached, and mounts it again.
    pub(crate) fn mount_again(&mut self) {
        assert!(run("umount", &[text(&self.at)]), "it can be unmounted");
        assert!(self.attach(), "it can be mounted");
    }

    /// Whether the file system takes no more writes, as its journal met the full pool.
    pub(crate) fn is_broken(&self) -> bool {
        File::create(self.at.join("probe")).is_err()
    }

    fn attach(&self) -> bool {
        run("mount", &[&self.device, text(&self.at)])
    }
}

impl Drop for ThinDisk {
    fn drop(&mut self) {
        let _unmounted = run("umount", &[text(&self.at)]);
        assert!(run("losetup", &["-d", &self.device]) || panicking(), "{} stays", self.device);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
