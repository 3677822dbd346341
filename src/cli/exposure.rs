//! The warnings of things that others may read, guess or reach: the control key, its file and listener, the data
//! directory, and a store's password.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

use super::key;
use crate::net::listen::address::ListenAddress;

/// The least length of a key, in bytes: a client that tries long enough may guess a shorter one.
const KEY_BYTES_MIN: usize = 16;

/// The mode bits that let others read a key.
const KEY_IS_READ: u32 = 0o044;
/// The mode bits that let others read the files of a data directory. A group's right to list the folder does not let it
/// read the files.
const DATA_IS_READ: u32 = 0o004;

/// Warns of a key file, if there is one, and of a data directory that others may read or write.
pub(super) fn warn(key_file: Option<&Path>, data_dir: &Path) {
    if let Some(path) = key_file
        && let Some(why) = found(path, KEY_IS_READ)
    {
        let path = path.display();
        log::warn!(
            "the control key file {path} {why}: a process with the key can record votes; chown and chmod 600 it"
        );
    }
    if let Some(why) = found(data_dir, DATA_IS_READ) {
        let path = data_dir.display();
        log::warn!("the data directory {path} {why}: votes, tokens and the key are in it; chown and chmod 700 it");
    }
}

/// Warns of a control key that can be guessed, and of another key in the data directory, which is refused.
pub(super) fn warn_of_key(key: &[u8], data_dir: Option<&Path>) {
    if key.len() < KEY_BYTES_MIN {
        let bytes = key.len();
        log::warn!(
            "the control key has {bytes} characters, and may be guessed: take 32 random ones, as openssl rand -hex 16 gives"
        );
    }
    if let Some(path) = data_dir.map(key::default_path)
        // Reading a pipe would wait for its writer.
        && fs::metadata(&path).is_ok_and(|there| there.is_file())
        && fs::read(&path).is_ok_and(|other| other.trim_ascii() != key)
    {
        let path = path.display();
        log::warn!(
            "the control key is not the one in {path}: an option or a variable names it, and that one is refused"
        );
    }
}

/// Warns of a control listener that clients outside this machine and its network may reach.
pub(super) fn warn_of_control(address: &ListenAddress) {
    if let ListenAddress::Tcp(socket) = address
        && is_public(socket.ip())
    {
        log::warn!(
            "the control listener is on {socket}, which others may reach: use a private network, an SSH tunnel or TLS in front"
        );
    }
}

/// Warns of a store's password on the command line.
#[cfg(feature = "redis")]
pub(super) fn warn_of_store_password() {
    log::warn!("--store holds a password, which everybody on this machine sees in ps: use --store-password-file");
}

/// Whether clients outside this machine and its network may reach an address. `0.0.0.0` and `::` stand for all
/// addresses of the machine, so they are public.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            // 100.64.0.0/10 is shared by a provider's own network, or by a virtual private one.
            let is_shared = ip & Ipv4Addr::new(255, 192, 0, 0) == Ipv4Addr::new(100, 64, 0, 0);
            !(ip.is_loopback() || ip.is_private() || ip.is_link_local() || is_shared)
        }
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()),
    }
}

fn found(path: &Path, is_read: u32) -> Option<String> {
    let there = fs::metadata(path).ok()?;
    exposure(there.mode(), there.uid(), geteuid().as_raw(), is_read)
}

/// The exposure of a file or folder with this mode and owner to users other than `own`, if there is one.
fn exposure(mode: u32, owner: u32, own: u32, is_read: u32) -> Option<String> {
    if owner != own && owner != 0 {
        return Some(format!("belongs to another user (uid {owner})"));
    }
    // Packages and secret stores leave the key with root, and let the service's group read it.
    let is_read = if owner == 0 && own != 0 { is_read & !0o040 } else { is_read };
    let verb = match (mode & is_read != 0, mode & 0o022 != 0) {
        (false, false) => return None,
        (true, false) => "read",
        (false, true) => "written",
        (true, true) => "read and written",
    };
    Some(format!("may be {verb} by others (mode {:04o})", mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::{DATA_IS_READ, KEY_IS_READ, exposure, is_public};

    #[test]
    fn addresses_that_may_be_reached_from_anywhere() {
        for (ip, expected) in [
            ("127.0.0.1", false),
            ("169.254.0.1", false),
            ("100.127.255.255", false),
            ("::1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("::ffff:127.0.0.1", false),
            ("0.0.0.0", true),
            ("100.128.0.1", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_public(ip.parse().expect("an address")), expected, "{ip}");
        }
    }

    #[test]
    fn what_others_may_do() {
        for (mode, owner, why, is_said) in [
            (0o100_600, 1_000, "", [false, false]),
            (0o100_640, 1_000, "may be read by others (mode 0640)", [true, false]),
            (0o100_640, 0, "", [false, false]),
            (0o100_666, 1_000, "may be read and written by others (mode 0666)", [true, true]),
            (0o100_644, 0, "may be read by others (mode 0644)", [true, true]),
            (0o40_711, 1_000, "", [false, false]),
            (0o40_720, 1_000, "may be written by others (mode 0720)", [true, true]),
            (0o41_777, 0, "may be read and written by others (mode 1777)", [true, true]),
            (0o100_600, 1_001, "belongs to another user (uid 1001)", [true, true]),
        ] {
            let said = [KEY_IS_READ, DATA_IS_READ].map(|is_read| exposure(mode, owner, 1_000, is_read));
            assert_eq!(said, is_said.map(|is_said| is_said.then(|| why.to_owned())), "{mode:o} of {owner}");
        }
        assert!(exposure(0o100_640, 0, 0, KEY_IS_READ).is_some(), "root's own is given to nobody");
    }
}
