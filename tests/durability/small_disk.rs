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

/// An ext4 file system on a device that has no more room than a small disk, whatever it says.
pub(crate) struct ThinDisk {
    pub(crate) at: PathBuf,
    device: String,
}

impl ThinDisk {
    /// A file system that says that it has so many bytes, in a file of `pool` that has as many as there are,
    /// unless none can be mounted here.
    pub(crate) fn mount(pool: &SmallDisk, at: PathBuf, bytes: u64) -> Option<ThinDisk> {
        let image = pool.0.join("image");
        fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file can be made");
        let mut attach = Command::new("losetup");
        let attached = attach.args(["--find", "--show"]).arg(&image).stderr(Stdio::null()).output().ok()?;
        let device = String::from_utf8(attached.stdout).ok().filter(|_| attached.status.success())?;
        let disk = ThinDisk { at, device: device.trim().to_owned() };
        fs::create_dir(&disk.at).expect("a folder can be made");
        (run("mkfs.ext4", &["-q", "-m", "0", "-E", "nodiscard", &disk.device]) && disk.attach()).then_some(disk)
    }

    /// Unmounts it, so that nothing of it is in memory, and mounts it again.
    pub(crate) fn mount_again(&mut self) {
        assert!(run("umount", &[&self.at.display().to_string()]), "it can be unmounted");
        assert!(self.attach(), "it can be mounted");
    }

    /// Has it behave as after an error of its own: it takes no more writes, though files are open for them.
    pub(crate) fn make_read_only(&self) -> bool {
        run("mount", &["-o", "remount,abort", &self.device, &self.at.display().to_string()])
    }

    fn attach(&self) -> bool {
        run("mount", &[&self.device, &self.at.display().to_string()])
    }
}

impl Drop for ThinDisk {
    fn drop(&mut self) {
        let _unmounted = run("umount", &[&self.at.display().to_string()]);
        assert!(run("losetup", &["-d", &self.device]) || panicking(), "{} stays", self.device);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
