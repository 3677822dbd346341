//! Each fault of the simulated disk on its own.

use super::{Disk, Kill, PAGE};

fn read(disk: &mut Disk, handle: u64) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(disk.length(handle).unwrap()).unwrap()];
    disk.read(handle, 0, &mut out).unwrap();
    out
}

/// Makes a file whose content and name outlast a power cut.
fn synced(disk: &mut Disk, content: &[u8]) -> u64 {
    let handle = disk.open("a", true).unwrap();
    disk.write(handle, 0, content).unwrap();
    disk.sync(handle).unwrap();
    disk.sync_folder().unwrap();
    handle
}

#[test]
fn what_is_not_synced_is_kept_lost_or_torn() {
    let (mut kept, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..100 {
        let mut disk = Disk::new(seed);
        let handle = synced(&mut disk, &[1; 2 * PAGE]);
        disk.write(handle, 0, &[2; 2 * PAGE]).unwrap();
        disk.cut_power();
        let handle = disk.open("a", false).unwrap();
        let twos = read(&mut disk, handle).iter().filter(|byte| **byte == 2).count();
        match twos {
            0 => lost += 1,
            _ if twos == 2 * PAGE => kept += 1,
            _ => torn += 1,
        }
    }
    assert!(kept > 10 && lost > 10 && torn > 10, "{kept} {lost} {torn}");
}

#[test]
fn a_failed_sync_looks_clean_until_its_pages_are_evicted() {
    let mut disk = Disk::new(3);
    let handle = synced(&mut disk, &[1; 16 * PAGE]);
    disk.write(handle, 0, &[2; 16 * PAGE]).unwrap();
    disk.faults.syncs_fail = 1;
    assert_eq!(disk.sync(handle).unwrap_err().raw_os_error(), Some(super::EIO));
    disk.sync(handle).expect("a second sync has nothing to do");
    assert_eq!(read(&mut disk, handle), vec![2; 16 * PAGE]);
    disk.evict();
    assert!(read(&mut disk, handle).contains(&1), "the old bytes are back");
    disk.write(handle, 0, &[3; 16 * PAGE]).unwrap();
    disk.sync(handle).unwrap();
    disk.cut_power();
    let handle = disk.open("a", false).unwrap();
    assert_eq!(read(&mut disk, handle), vec![3; 16 * PAGE]);
}

#[test]
fn a_name_is_durable_with_its_folder() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..100 {
        let mut disk = Disk::new(seed);
        synced(&mut disk, b"old");
        let other = disk.open("b", true).unwrap();
        disk.write(other, 0, b"new").unwrap();
        disk.sync(other).unwrap();
        disk.sync_folder().unwrap();
        disk.rename("b", "a").unwrap();
        if seed % 2 == 0 {
            disk.sync_folder().unwrap();
        }
        disk.cut_power();
        let handle = disk.open("a", false).unwrap();
        match &read(&mut disk, handle)[..] {
            b"old" if seed % 2 == 1 => old += 1,
            b"new" => new += 1,
            other => panic!("{other:?} of seed {seed}"),
        }
    }
    assert!(old > 10 && new > 60, "{old} {new}");
}

#[test]
fn a_full_disk_takes_what_has_room_and_a_thin_one_says_so_at_the_sync() {
    let mut disk = Disk::new(5);
    let handle = synced(&mut disk, &[1; PAGE]);
    disk.faults.is_full = true;
    disk.write(handle, 0, &[2; PAGE]).unwrap();
    disk.sync(handle).unwrap();
    let error = disk.write(handle, PAGE as u64, &[2; 1]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(super::ENOSPC));
    disk.faults.is_full = false;
    disk.faults.is_thin_and_full = true;
    disk.write(handle, PAGE as u64, &[2; PAGE]).unwrap();
    disk.sync(handle).unwrap_err();
    disk.faults.is_thin_and_full = false;
    disk.evict();
    assert_eq!(read(&mut disk, handle)[PAGE..], [0; PAGE]);
}

#[test]
fn a_process_that_dies_at_its_sync_leaves_what_the_sync_has_done() {
    for fails in [false, true] {
        let mut disk = Disk::new(9);
        let handle = synced(&mut disk, &[1; 16 * PAGE]);
        disk.faults.kill = Some(Kill::AtSync { syncs: 1, fails });
        disk.write(handle, 0, &[2; 16 * PAGE]).unwrap();
        disk.sync(handle).unwrap();
        disk.write(handle, 0, &[3; 16 * PAGE]).unwrap();
        disk.sync(handle).unwrap_err();
        assert!(disk.is_dead());
        disk.kill();
        let handle = disk.open("a", false).unwrap();
        disk.sync(handle).expect("it looks clean");
        assert_eq!(read(&mut disk, handle), vec![3; 16 * PAGE]);
        disk.cut_power();
        let handle = disk.open("a", false).unwrap();
        assert_eq!(read(&mut disk, handle).contains(&2), fails);
    }
}

/// The reserve has no content that matters, so its syncs say nothing of the store.
#[test]
fn syncs_of_what_is_kept_back_do_not_count() {
    for (name, failed_syncs) in [("votes.reserve", 0), ("votes.redb", 1)] {
        let mut disk = Disk::new(0);
        let handle = disk.open(name, true).unwrap();
        disk.faults.syncs_fail = 1;
        disk.sync(handle).unwrap_err();
        assert_eq!((disk.failed_syncs, disk.has_sync_failed), (failed_syncs, failed_syncs == 1), "{name}");
    }
}
