//! Power cuts during backups, purges and restores.
use crate::kit::{Pairs, backups_in, checkpoints, pairs_in, restored};
use std::sync::Arc;
use terrace_sim::{CrashFs, Rules};
use terrace_vfs::FileSystem;

/// What has happened until a step of the disk.
struct Moment {
    step: usize,
    /// The backups that must exist from this step on, and those that may exist in addition.
    must: Vec<u64>,
    may: Vec<u64>,
}

/// Tests a power cut at every step of a history of backups and purges. Afterwards all listed
/// backups restore the pairs of their moments. Every backup exists whose creation had returned, and
/// whose removal had not begun. The next backup succeeds.
#[test]
fn a_power_cut_leaves_only_complete_backups() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let history = checkpoints(5);
        let disk = CrashFs::new(rules);
        let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
        let backups = backups_in(&fs).unwrap();
        let (mut moments, mut alive): (Vec<Moment>, Vec<u64>) = Default::default();
        for (at, checkpoint) in history.iter().enumerate() {
            let next = at as u64 + 1;
            moments.push(Moment { step: disk.steps(), must: alive.clone(), may: vec![next] });
            assert_eq!(backups.create_from(&checkpoint.source(), checkpoint.sequence).unwrap().id, next);
            alive.push(next);
            if at == 2 {
                moments.push(Moment { step: disk.steps(), must: vec![3], may: vec![1, 2] });
                backups.purge(1).unwrap();
                alive = vec![3];
            }
        }
        moments.push(Moment { step: disk.steps(), must: alive.clone(), may: Vec::new() });
        let pairs_of = |id: u64| &history[id as usize - 1].pairs;
        for step in 0..=disk.steps() {
            let moment = moments.iter().rev().find(|moment| moment.step <= step).unwrap_or(&moments[0]);
            for seed in 0..3 {
                let left = disk.power_loss(step, seed).file_system();
                let Ok(backups) = backups_in(&left) else {
                    assert!(moment.must.is_empty(), "step {step}, seed {seed}: the place is lost");
                    continue;
                };
                let listed: Vec<u64> = backups.list().unwrap().into_iter().map(|found| found.unwrap().id).collect();
                let missing = moment.must.iter().find(|id| !listed.contains(id));
                assert_eq!(missing, None, "step {step}, seed {seed}: missing of {listed:?}");
                let known = |id: &u64| moment.must.contains(id) || moment.may.contains(id);
                assert!(listed.iter().all(known), "step {step}, seed {seed}: {listed:?}");
                for id in &listed {
                    assert!(restored(&backups, *id) == *pairs_of(*id), "step {step}, seed {seed}: backup {id}");
                }
                let last = history.last().unwrap();
                let next = backups.create_from(&last.source(), last.sequence).unwrap().id;
                assert!(restored(&backups, next) == last.pairs, "step {step}, seed {seed}: the next backup");
            }
        }
    }
}

/// Tests a power cut at every step of a restore. Afterwards the directory is the whole store, or
/// not a store.
#[test]
fn a_power_cut_during_a_restore_leaves_no_incomplete_store() {
    let history = checkpoints(2);
    let place: Arc<dyn FileSystem> = Arc::new(terrace_storage::Memory::new());
    let backups = backups_in(&place).unwrap();
    for made in &history {
        backups.create_from(&made.source(), made.sequence).unwrap();
    }
    let disk = CrashFs::new(Rules::Posix);
    backups.restore_into(2, &disk, |_| ()).unwrap();
    let end = disk.steps();
    let mut whole = 0;
    for step in 0..=end {
        for seed in 0..4 {
            let left: terrace::Result<Pairs> = pairs_in(&disk.power_loss(step, seed).file_system());
            match left {
                Ok(pairs) => {
                    assert!(pairs == history[1].pairs, "step {step}, seed {seed}: an incomplete store opens");
                    whole += 1;
                }
                Err(error) => {
                    assert!(step < end, "seed {seed}: the restored store is lost: {error}");
                    let is_no_store = matches!(error, terrace::Error::Missing { .. });
                    assert!(is_no_store, "step {step}, seed {seed}: a damaged store: {error}");
                }
            }
        }
    }
    assert!(whole >= 4);
}
