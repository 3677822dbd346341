//! A commit that is refused is not in the file, and a commit to a file that went is not acknowledged.

use super::{
    A_CHANGE_FAILS, BEFORE, Change, Disk, ELSEWHERE, Event, Owner, STORE, StoreError, VOTES, note, vote, votes,
};
use std::ops::RangeInclusive;
use std::sync::Arc;
use vote_status::store::Store;

/// A page that cannot be written may hold the same content from earlier, and then the commit is whole without it.
#[test]
fn a_refused_change_is_not_in_the_file_whatever_its_pages_held_before() {
    let (furnished, mut refused) = (Owner::furnished(), 0);
    let removed = |numbers: RangeInclusive<u32>| {
        Change::Of(numbers.map(|number| Event::VoteRemoved(vote(number, number))).collect())
    };
    for (before, between) in (0..8).flat_map(|before| (0..8).map(move |between| (before, between))) {
        for operations in 0..20 {
            let what = format!("{before} commits, a vote, {between} commits, and a change fails at {operations}");
            let mut owner = furnished.copy(0, what, BEFORE[0]);
            owner.well(|owner| {
                owner.change(&removed(1..=VOTES))?;
                (13..18).try_for_each(|number| owner.change(&votes([number])))?;
                (0..before).try_for_each(|_| owner.change(&votes([])))?;
                owner.change(&votes([20]))?;
                (0..between).try_for_each(|_| owner.change(&votes([])))
            });
            owner.disk.locked().strikes.push_back((operations, A_CHANGE_FAILS));
            refused += u32::from(matches!(owner.attempt(&removed(20..=20)), Ok(None)) && owner.doubtful.is_none());
            owner.end(false);
            owner.disk.locked().strikes.clear();
            owner.well(Owner::open);
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Another program moves or empties the file while a commit is in its sync: the commit is not acknowledged.
#[test]
fn a_file_that_goes_or_is_emptied_within_a_commit_keeps_nothing() {
    let strikes: [fn(&mut Disk); 2] = [|disk| disk.move_away(STORE, ELSEWHERE), |disk| disk.replace(STORE, b"")];
    for strike in strikes {
        let mut owner = Owner::furnished();
        owner.well(Owner::open);
        let header = |disk: &Disk| disk.content(STORE).map(|content| content[..320].to_vec());
        let disk = Arc::clone(&owner.disk);
        let mut before = Some(header(&disk.locked()));
        owner.disk.set_look(Some(Box::new(move |_| {
            let mut disk = disk.locked();
            if before.take_if(|before| *before != header(&disk)).is_some() {
                strike(&mut disk);
            }
        })));
        let told = owner.store().commit(&[Event::Vote(vote(20, 20))], &note());
        assert!(matches!(told, Err(StoreError::InDoubt(_))), "{told:?}");
    }
}
