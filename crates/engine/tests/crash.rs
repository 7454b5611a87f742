//! Power cuts: after a cut at any step, whatever the disk kept of what was not synced, the store opens and holds a prefix
//! of the history that has everything promised (docs/durability.md).
//!
//! `TERRACE_CRASH_SEEDS` scales the campaign (images per step, default 8). A failure names tracker, rules, history
//! seed, step and image seed; the same numbers give the same image.
#[path = "common/history.rs"]
mod history;

use history::{History, Tracker, contents, placement, tight_options};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};
use terrace::{Db, WriteOptions, check_on};
use terrace_sim::{CrashFs, Image, Rng, Rules};
use terrace_storage::backends::files::fs::FileSystem;

const ACTIONS: usize = 260;
const HISTORIES: u64 = 6;

fn seeds_per_step() -> u64 {
    std::env::var("TERRACE_CRASH_SEEDS").map_or(8, |text| text.parse().expect("TERRACE_CRASH_SEEDS is a number"))
}

fn open(fs: &Arc<dyn FileSystem>) -> terrace::Result<Db> {
    Db::open_manual(placement(fs, Tracker::Sync.make(0), &tight_options())?, tight_options())
}

/// Opens an image and judges it. On some seeds goes on: the store must take writes, pass a full check, and survive a
/// second cut during or after its recovery.
fn judge(history: &History<'_>, image: &Image, rules: Rules, step: usize, seed: u64) -> Result<(), String> {
    let fs = image.file_system();
    let db = open(&fs).map_err(|e| format!("cannot open: {e}"))?;
    let applied = history.judge(step, &db)?;
    if seed % 8 == 1 {
        db.put_with("after", "the crash", WriteOptions::synced()).map_err(|e| format!("cannot write: {e}"))?;
        drop(db);
        let report =
            check_on(&*placement(&fs, Tracker::Sync.make(0), &tight_options()).unwrap(), &tight_options(), true);
        let report = report.map_err(|e| format!("cannot check: {e}"))?;
        if !report.problems.is_empty() {
            return Err(format!("check finds {:?}", report.problems));
        }
        let db = open(&fs).map_err(|e| format!("cannot open again: {e}"))?;
        let mut wanted = history.states[applied].clone();
        wanted.insert(b"after".to_vec(), b"the crash".to_vec());
        if contents(&db)? != wanted {
            return Err("a synced write after recovery is lost, or another came back".into());
        }
    }
    if seed % 8 == 2 { cut_again(history, image, rules, step, seed) } else { Ok(()) }
}

/// Recovers on a recorded directory and cuts the power during that recovery.
fn cut_again(history: &History<'_>, image: &Image, rules: Rules, step: usize, seed: u64) -> Result<(), String> {
    let recorder = CrashFs::from_image(image, rules);
    let fs: Arc<dyn FileSystem> = Arc::new(recorder.clone());
    let recovered = history.judge(step, &open(&fs).map_err(|e| format!("cannot open: {e}"))?)?;
    let end = recorder.steps();
    let second = Rng::of(seed, step as u64).below(end + 1);
    for (cut, at_least) in [(second, 0), (end, recovered)] {
        let again = recorder.power_loss(cut, seed).file_system();
        let db = open(&again).map_err(|e| format!("second cut at {cut} of {end}: cannot open: {e}"))?;
        let applied = history.judge(step, &db).map_err(|e| format!("second cut at {cut} of {end}: {e}"))?;
        if applied < at_least {
            return Err(format!("LOST: recovery showed {recovered} batches, after a second cut there are {applied}"));
        }
    }
    Ok(())
}

/// Every step of a history, several images each. Returns the number of states, and of failed ones with the first reason.
fn campaign(tracker: Tracker, rules: Rules, history_seed: u64, seeds: u64) -> (usize, usize, Option<String>) {
    let recorder = CrashFs::new(rules);
    let steps = || recorder.steps();
    let mut history = History::new(history_seed, tracker, Arc::new(recorder.clone()), &steps);
    history.run(ACTIONS);
    let (mut states, mut failed, mut first) = (0, 0, None);
    for step in 0..=recorder.steps() {
        for seed in 0..seeds {
            states += 1;
            let image = recorder.power_loss(step, seed);
            if let Err(reason) = judge(&history, &image, rules, step, seed) {
                failed += 1;
                first.get_or_insert(format!(
                    "{tracker:?} {rules:?} history {history_seed} step {step} seed {seed}: {reason}\n{image:?}"
                ));
            }
        }
    }
    (states, failed, first)
}

/// Runs every (rules, history) of the trackers on all cores and sums up.
fn campaigns(trackers: &[Tracker], seeds: u64) -> (usize, usize, Option<String>) {
    let jobs: Vec<(Tracker, Rules, u64)> = trackers
        .iter()
        .flat_map(|&tracker| [Rules::Ext4, Rules::Posix].map(|rules| (tracker, rules)))
        .filter(|(tracker, rules)| !(tracker.needs_journal() && *rules == Rules::Posix)) // refused there
        .flat_map(|(tracker, rules)| (0..HISTORIES).map(move |seed| (tracker, rules, seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let results: Vec<_> = thread::scope(|scope| {
        let work = || {
            let mut own = Vec::new();
            while let Some(&(tracker, rules, seed)) = jobs.get(next.fetch_add(1, Relaxed)) {
                own.push(campaign(tracker, rules, seed, seeds));
            }
            own
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a campaign panicked")).collect()
    });
    let states = results.iter().map(|(states, _, _)| states).sum();
    let failed = results.iter().map(|(_, failed, _)| failed).sum();
    (states, failed, results.into_iter().find_map(|(_, _, first)| first))
}

#[test]
fn any_power_cut_leaves_a_prefix_with_everything_promised() {
    let seeds = seeds_per_step();
    let (states, failed, first) = campaigns(&Tracker::PROMISING, seeds);
    println!("{states} crash states, {failed} failed");
    assert_eq!(failed, 0, "ORACLE: {failed} of {states} states: {}", first.unwrap_or_default());
    assert!(seeds < 8 || states >= 100_000, "only {states} states: the campaign has shrunk");
}

/// The control: a store that syncs nothing must be caught, or the test above proves nothing.
#[test]
fn a_store_that_never_syncs_is_caught() {
    let (states, failed, _) = campaigns(&[Tracker::Never], 2);
    assert!(failed > states / 100, "only {failed} of {states} states were found broken");
}
