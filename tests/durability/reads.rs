//! A disk that does not give what it is asked for: a read, or a look at a name, that fails once says nothing
//! of the store. It is told as the disk's, tried again, and never as damage that is to be moved away, nor as
//! another file in the store's place.

use crate::durability::device::Device;
use crate::durability::history::{Kept, Step, besides, server, vote};
use std::collections::BTreeSet;
use vote_status::store::disk::Disk;
use vote_status::store::embedded::STORE_FILE;
use vote_status::store::{Store, StoreError};

/// 2026-11-20T12:34:56Z.
const AT: u32 = 1_795_178_096;

/// A store with two servers and some votes, as a process leaves it that was killed, or not.
fn furnished_device(is_killed: bool) -> Device {
    let device = Device::formatted();
    let mut store = device.open().expect("it is whole");
    store.commit(&[server(1, "one"), server(2, "two")], &besides()).expect("all is well");
    (0..40).for_each(|ip| store.commit(&[vote(AT, 1, ip)], &besides()).expect("all is well"));
    if is_killed {
        return device.left();
    }
    drop(store);
    device
}

/// A start in which one read fails, whichever it is.
#[test]
fn a_read_that_fails_at_a_start_is_no_damage() {
    for is_killed in [false, true] {
        let furnished = furnished_device(is_killed);
        let kept = Kept::of(&mut furnished.left().open().expect("it is whole")).expect("it can be read");
        let mut failed = 0;
        let mut told = BTreeSet::new();
        for reads in 0.. {
            let device = furnished.left();
            device.fail_read_after(reads);
            let found = device.open().and_then(|mut store| Kept::of(&mut store));
            if device.read_again() {
                break;
            }
            match found {
                Err(StoreError::Unavailable(why)) => {
                    assert!(["damaged", "move", "gone"].iter().all(|word| !why.contains(word)), "read {reads}: {why}");
                    told.insert(why);
                }
                Ok(found) => assert_eq!(found, kept, "read {reads}"),
                Err(why) => panic!("killed: {is_killed}, read {reads}: {why:?}"),
            }
            failed += 1;
            let again = Kept::of(&mut device.open().expect("the disk is well again")).expect("it can be read");
            assert_eq!(again, kept, "read {reads}, at the next try");
        }
        println!("killed: {is_killed}: {failed} reads of a start failed one by one: {told:?}");
        assert!(failed >= 10, "{failed}");
    }
}

/// The name of the store is gone and its note cannot be read: an empty store would forget every vote.
#[test]
fn a_note_that_cannot_be_read_makes_no_empty_store() {
    let device = furnished_device(false);
    device.remove(STORE_FILE).expect("it can be removed");
    device.fail_read_after(0);
    let failed = device.open().map(drop);
    assert!(!device.read_again(), "the failure has struck");
    assert!(matches!(&failed, Err(StoreError::Unavailable(why)) if why.contains("votes.sequence")), "{failed:?}");
    let refused = device.open().map(drop);
    assert!(matches!(&refused, Err(StoreError::Unusable(why)) if why.contains("is gone")), "{refused:?}");
}

/// Looks at the place of the store, in a commit and between commits. Regression: one that failed was told as
/// another file in its place.
#[test]
fn a_look_that_fails_is_no_other_file() {
    let mut failed = 0;
    for looks in 0.. {
        let device = furnished_device(false);
        let mut store = device.open().expect("it is whole");
        device.fail_look_after(looks);
        let told = [store.tend(), store.commit(&[vote(AT, 1, 100)], &besides()), store.tend()];
        if device.read_again() {
            break;
        }
        failed += 1;
        for told in told.into_iter().filter_map(Result::err) {
            let is_right = match &told {
                StoreError::Unavailable(why) | StoreError::InDoubt(why) => !why.contains("another file"),
                _ => false,
            };
            assert!(is_right, "look {looks}: {told:?}");
        }
        let mut kept = Kept::of(&mut furnished_device(false).open().expect("it is whole")).expect("it can be read");
        kept.take(&Step::Commit(vec![vote(AT, 1, 100)]));
        if store.is_void() {
            store.renew(&mut kept.rows().into_iter(), &besides()).expect("the disk is well again");
        } else {
            store.commit(&[vote(AT, 1, 100)], &besides()).expect("the disk is well again");
        }
        assert_eq!(Kept::of(&mut store).expect("it can be read"), kept, "look {looks}");
    }
    println!("{failed} looks failed one by one");
    assert!(failed >= 3, "{failed}");
}
