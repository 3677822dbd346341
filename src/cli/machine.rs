//! The memory that this process may use: the machine's, or less if a control group limits it. The limits of its
//! own group and of all groups above it count. A soft limit (`memory.high`) counts as well: beyond it, the
//! system slows the process down until it no longer answers.

use std::fs;
use std::path::Path;

use rustix::system::sysinfo;

use crate::limits::{BUFFER_BYTES_MAX_DEFAULT, BUFFER_BYTES_MAX_FLOOR, BUFFER_MACHINE_PART};

/// The folder of control groups, by convention.
const GROUPS: &str = "/sys/fs/cgroup";

/// The default of the memory that all connections may use together.
pub(super) fn buffer_bytes_max() -> u64 {
    let part_bytes = memory_bytes() / BUFFER_MACHINE_PART;
    part_bytes.clamp(BUFFER_BYTES_MAX_FLOOR, BUFFER_BYTES_MAX_DEFAULT)
}

fn memory_bytes() -> u64 {
    let system = sysinfo();
    // Asked of the kernel itself: the unit hides /proc/meminfo.
    let machine_bytes = system.totalram.saturating_mul(u64::from(system.mem_unit.max(1)));
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_bytes(&membership, Path::new(GROUPS)).map_or(machine_bytes, |bytes| bytes.min(machine_bytes))
}

/// The least of all limits that apply to a process of this membership, see cgroups(7). Version 2 has a
/// line with no controllers, version 1 one for memory.
fn group_bytes(membership: &str, groups: &Path) -> Option<u64> {
    let lines = membership.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let limits = lines.filter_map(|(controllers, path)| match controllers {
        "" => least(groups, path, &["memory.max", "memory.high"]),
        _ if controllers.split(',').any(|one| one == "memory") => {
            least(&groups.join("memory"), path, &["memory.limit_in_bytes"])
        }
        _ => None,
    });
    limits.min()
}

/// The least number in these files of a group and of all groups above it. A file without a number sets no limit.
fn least(groups: &Path, path: &str, files: &[&str]) -> Option<u64> {
    let group = groups.join(path.trim_start_matches('/'));
    let above = group.ancestors().take_while(|folder| folder.starts_with(groups));
    let read = |folder: &Path, file: &&str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    above.flat_map(|folder| files.iter().filter_map(move |file| read(folder, file))).min()
}

#[cfg(test)]
mod tests {
    use super::group_bytes;
    use std::fs;

    #[test]
    fn the_least_limit_of_a_group_and_those_above_it_counts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        let inner = root.join("system.slice/vote-status.service");
        let old = root.join("memory/old");
        for folder in [&inner, &old] {
            fs::create_dir_all(folder).expect("a folder");
        }
        let write = |path: &str, text: &str| fs::write(root.join(path), text).expect("a file");
        let v2 = "0::/system.slice/vote-status.service\n";
        assert_eq!(group_bytes(v2, root), None);
        write("system.slice/vote-status.service/memory.max", "max\n");
        assert_eq!(group_bytes(v2, root), None);
        write("system.slice/memory.max", "1073741824\n");
        assert_eq!(group_bytes(v2, root), Some(1_073_741_824));
        write("system.slice/vote-status.service/memory.high", "536870912\n");
        assert_eq!(group_bytes(v2, root), Some(536_870_912));
        // A container sees its own group as the root, whatever its path outside is.
        write("memory.max", "268435456\n");
        assert_eq!(group_bytes("0::/somewhere/else\n", root), Some(268_435_456));
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/old/memory.limit_in_bytes", "134217728\n");
        let v1 = "12:cpu,cpuacct:/old\n4:memory:/old\n";
        assert_eq!(group_bytes(v1, root), Some(134_217_728));
        assert_eq!(group_bytes("4:memory:/gone\n", root), Some(9_223_372_036_854_771_712));
        assert_eq!(group_bytes("", root), None);
    }
}
