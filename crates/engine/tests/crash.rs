//! Power cuts: after a cut at any step, whatever the disk kept of what was not synced, the store opens and holds a prefix
//! of the history that has everything promised (docs/durability.md).
//!
//! `TERRACE_CRASH_SEEDS` scales the campaign (images per step, default 8). A failure names tracker, rules, history
//! seed, step and image seed; the same numbers give the same image.
#[path = "common/cuts.rs"]
mod cuts;
#[path = "common/history.rs"]
mod history;

use cuts::{Cuts, histories};
use history::Tracker;
use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};
use terrace::{Collection, Options, TableForm};

const HISTORIES: u64 = 6;

fn seeds_per_step() -> u64 {
    std::env::var("TERRACE_CRASH_SEEDS").map_or(8, |text| text.parse().expect("TERRACE_CRASH_SEEDS is a number"))
}

/// Every step of a history, several images each. Returns the number of states, and of failed ones with the first reason.
fn campaign(cuts: &Cuts) -> (usize, usize, Option<String>) {
    let (mut states, mut failed, mut first) = (0, 0, None);
    cuts.judge_all(usize::MAX, &mut |broken| {
        states += 1;
        if let Some(broken) = broken {
            failed += 1;
            first.get_or_insert_with(|| format!("{}: {}\n{}", broken.place, broken.reason, broken.image));
        }
        true
    });
    (states, failed, first)
}

/// Runs every (rules, history) of the trackers on all cores and sums up.
fn campaigns(
    options: &Options,
    trackers: &[Tracker],
    numbers: Range<u64>,
    seeds: u64,
) -> (usize, usize, Option<String>) {
    let jobs: Vec<Cuts> = numbers.flat_map(|seed| histories(options, trackers, seed, seeds)).collect();
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(2, usize::from);
    let results: Vec<_> = thread::scope(|scope| {
        let work = || {
            let mut own = Vec::new();
            while let Some(cuts) = jobs.get(next.fetch_add(1, Relaxed)) {
                own.push(campaign(cuts));
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
    let (plain, mut bundled) = (Options::default(), Options::default());
    bundled.tables = Some(TableForm::Bundled);
    let half = HISTORIES / 2;
    let (mut states, failed, mut first) = campaigns(&plain, &Tracker::PROMISING, 0..half, seeds);
    let (more, failed_too, then) = campaigns(&bundled, &Tracker::PROMISING, half..HISTORIES, seeds);
    (states, first) = (states + more, first.or(then));
    let failed = failed + failed_too;
    println!("{states} crash states, {failed} failed");
    assert_eq!(failed, 0, "ORACLE: {failed} of {states} states: {}", first.unwrap_or_default());
    assert!(seeds < 8 || states >= 100_000, "only {states} states: the campaign has shrunk");
}

/// States around folders that are made and removed, and files that are linked and unlinked. `TERRACE_CRASH_SEEDS` scales
/// it likewise, by histories.
#[test]
fn any_power_cut_leaves_directory_tables_whole() {
    let mut options = Options::default();
    options.set("tables", "directory").expect("a form of tables");
    options.file_value_bytes_min = 20;
    let numbers = 0..(seeds_per_step() / 8).max(1);
    let trackers = [Tracker::Background, Tracker::Late, Tracker::LateFailing];
    let (states, failed, first) = campaigns(&options, &trackers, numbers.clone(), 1);
    println!("{states} crash states, {failed} failed");
    assert_eq!(failed, 0, "ORACLE: {failed} of {states} states: {}", first.unwrap_or_default());
    assert!(states >= 5000, "only {states} states: the campaign has shrunk");
    let (states, failed, _) = campaigns(&options, &[Tracker::Never], numbers, 1);
    assert!(failed > states / 100, "only {failed} of {states} states were found broken");
}

/// The same where values live in the log, which tables point into.
#[test]
fn so_with_values_in_the_log() {
    let mut options = Options::preset("wisckey").expect("there is one");
    options.value_log_threshold = 40;
    options.segment_bytes = 64 << 10;
    options.garbage_percent = 1; // so that something is collected all the time
    let mut other = options.clone();
    other.tables = Some(TableForm::Bundled);
    other.collection = Collection::Segments;
    let (seeds, half) = (seeds_per_step().div_ceil(2), HISTORIES / 2);
    let (mut states, mut failed, mut first) = campaigns(&options, &Tracker::PROMISING, 0..half, seeds);
    let (more, failed_too, then) = campaigns(&other, &Tracker::PROMISING, half..HISTORIES, seeds);
    (states, failed, first) = (states + more, failed + failed_too, first.or(then));
    println!("{states} crash states, {failed} failed");
    assert_eq!(failed, 0, "ORACLE: {failed} of {states} states: {}", first.unwrap_or_default());
    assert!(seeds < 4 || states >= 50_000, "only {states} states: the campaign has shrunk");
}

/// The controls: a store that syncs nothing must be caught, and one that syncs everything but tables, or the test above proves
/// nothing.
#[test]
fn a_store_that_does_not_sync_what_it_should_is_caught() {
    for tracker in [Tracker::Never, Tracker::Lying] {
        let (states, failed, _) = campaigns(&Options::default(), &[tracker], 0..HISTORIES, 2);
        println!("{tracker:?}: {failed} of {states} states are broken");
        assert!(failed > states / 100, "{tracker:?}: only {failed} of {states} states were found broken");
    }
}
