//! Calls that fail, and a place without space.
use crate::kit::{Checkpoint, backups_in, checkpoints, restored};
use std::sync::Arc;
use terrace_backup::{Backups, Error};
use terrace_sim::{CrashFs, Fault, FaultFs, Plan, Rules, SmallFs};
use terrace_storage::Memory;
use terrace_vfs::FileSystem;

/// Makes two backups without faults, then two more and a purge with `plan`, and afterwards one
/// without faults. The older backups must stay complete. Returns the number of calls that the plan
/// counted, and whether one of them failed.
fn run(history: &[Checkpoint], plan: Plan) -> (u64, bool) {
    let faults = FaultFs::new(Arc::new(Memory::new()), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
    let backups = backups_in(&fs).unwrap();
    let create = |at: usize| backups.create_from(&history[at].source(), history[at].sequence);
    let mut made: Vec<(u64, usize)> = [0, 1].map(|at| (create(at).unwrap().id, at)).into();
    let (calls, failed) = (faults.calls(), faults.failed());
    faults.arm(plan);
    let mut purged = false;
    for at in [2, 3] {
        made.extend(create(at).ok().map(|backup| (backup.id, at)));
    }
    if let Ok(gone) = backups.purge(2) {
        purged = true;
        made.retain(|(id, _)| !gone.removed.contains(id));
    }
    let (calls, failed) = (faults.calls() - calls, faults.failed() > failed);
    faults.heal();
    let last = create(4).unwrap();
    made.push((last.id, 4));
    let listed: Vec<u64> = backups.list().unwrap().into_iter().map(|found| found.unwrap().id).collect();
    // A purge that failed may have removed backups, but not the two newest ones.
    let kept = if purged { &made[..] } else { &made[made.len().saturating_sub(3)..] };
    let missing = kept.iter().find(|(id, _)| !listed.contains(id));
    assert_eq!(missing, None, "of {listed:?}");
    for (id, at) in made.iter().filter(|(id, _)| listed.contains(id)) {
        assert!(restored(&backups, *id) == history[*at].pairs, "backup {id}");
    }
    assert_eq!(backups.verify(None).unwrap().problems, []);
    (calls, failed)
}

#[test]
fn a_failed_call_leaves_older_backups_complete_and_the_next_one_succeeds() {
    let history = checkpoints(5);
    let (calls, _) = run(&history, Plan::never());
    assert!(calls > 50, "{calls}");
    for fault in [Fault::Eio, Fault::ShortWrite, Fault::EioAtSync] {
        let failed = (0..calls).filter(|call| run(&history, Plan::once(*call, fault)).1).count();
        assert!(failed > 5, "{fault:?}: only {failed} calls failed");
    }
}

/// Tests syncs that fail, each once, and a power cut during the next backup, which uses
/// objects whose names the failed backup did not make durable.
#[test]
fn a_backup_after_a_failed_sync_survives_a_power_cut() {
    let history = checkpoints(1);
    let create = |backups: &Backups| backups.create_from(&history[0].source(), history[0].sequence);
    let mut failed = 0;
    for call in 0.. {
        let disk = CrashFs::new(Rules::Posix);
        let faults = FaultFs::new(Arc::new(disk.clone()), Plan::once(call, Fault::EioAtSync));
        let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
        let backups = backups_in(&fs).unwrap();
        failed += usize::from(create(&backups).is_err());
        if faults.failed() == 0 {
            break;
        }
        let begun = disk.steps();
        create(&backups).unwrap();
        for step in begun..=disk.steps() {
            for seed in 0..20 {
                let Ok(left) = backups_in(&disk.power_loss(step, seed).file_system()) else { continue };
                let listed = left.list().unwrap();
                assert!(step < disk.steps() || !listed.is_empty(), "call {call}, seed {seed}: it is lost");
                for backup in listed {
                    let pairs = restored(&left, backup.unwrap().id);
                    assert!(pairs == history[0].pairs, "call {call}, step {step}, seed {seed}");
                }
            }
        }
    }
    assert!(failed > 5, "only {failed} calls failed");
}

#[test]
fn a_full_place_keeps_its_backups_and_takes_the_next_one_with_more_space() {
    let history = checkpoints(4);
    let disk = SmallFs::new(Arc::new(Memory::new()), 1 << 30);
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let backups = backups_in(&fs).unwrap();
    let create = |at: usize| backups.create_from(&history[at].source(), history[at].sequence);
    create(0).unwrap();
    let used = disk.used();
    for left in [0, 100, 1000, 5000] {
        disk.leave(left);
        let error = create(3).unwrap_err();
        assert!(matches!(&error, Error::Io { op: "write", .. }), "{error}");
        assert!(error.to_string().ends_with("older backups are complete: free some space, then try again"), "{error}");
        assert!(restored(&backups, 1) == history[0].pairs);
    }
    disk.leave(1 << 20);
    let id = create(3).unwrap().id;
    assert!(restored(&backups, id) == history[3].pairs);
    assert!(disk.used() > used);
}
