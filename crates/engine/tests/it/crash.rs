//! Tests with simulated power cuts. After a power cut at any step, the disk may have kept any
//! subset of the unsynced data. The store must open and contain a prefix of the history, and the
//! prefix must include everything that was acknowledged as durable (docs/durability.md).
//!
//! `TERRACE_CRASH_SEEDS` sets the count of disk images per step, and so the size of the campaign.
//! With `TERRACE_FULL` it is 8. By default the power is cut only at a sample of the steps. A
//! failure message names the durability tracker, the rules of the file system, the history seed,
//! the step and the image seed. The same values reproduce the disk image.
use crate::common::{cuts, history, kit};
use cuts::{Cuts, histories};
use history::{Collected, Tracker};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};
use terrace::{CompactionStyle, GcMode, Options, TableForm};

const HISTORIES: u64 = 6;
/// The count of power cuts per history, if neither `TERRACE_CRASH_SEEDS` nor `TERRACE_FULL` is
/// set.
const SAMPLED_STEPS: usize = 400;

fn given_seeds() -> Option<u64> {
    let given = std::env::var("TERRACE_CRASH_SEEDS").ok();
    given.map(|text| text.parse().expect("TERRACE_CRASH_SEEDS is a number")).or(kit::is_full().then_some(8))
}

fn seeds_per_step() -> u64 {
    given_seeds().unwrap_or(1)
}

/// The sum of the outcomes of several histories.
#[derive(Default)]
struct Sum {
    states: usize,
    failed: usize,
    /// The first broken promise.
    first: Option<String>,
    /// The work of value-log garbage collection in each history.
    collected: Vec<Collected>,
}

impl Sum {
    fn add(mut self, other: Sum) -> Sum {
        self.collected.extend(other.collected);
        let (states, failed) = (self.states + other.states, self.failed + other.failed);
        Sum { states, failed, first: self.first.or(other.first), collected: self.collected }
    }

    fn assert_intact(&self) {
        println!("{} crash states, {} failed", self.states, self.failed);
        let first = self.first.as_deref().unwrap_or_default();
        assert_eq!(self.failed, 0, "ORACLE: {} of {} states: {first}", self.failed, self.states);
    }

    /// Asserts that some promise was broken. The run was a control with a deliberate fault, so the
    /// campaign must have found a loss.
    fn is_broken(&self, what: &str) {
        let Sum { states, failed, .. } = self;
        println!("{what}: {failed} of {states} states are broken");
        assert!(failed > &(states / 100), "{what}: only {failed} of {states} states were found broken");
    }
}

/// Judges the crash states of one history.
fn campaign(cuts: &Cuts) -> Sum {
    let steps_max = if given_seeds().is_some() { usize::MAX } else { SAMPLED_STEPS };
    let mut sum = Sum::default();
    let collected = cuts.judge_all(steps_max, &mut |broken| {
        sum.states += 1;
        if let Some(broken) = broken {
            sum.failed += 1;
            sum.first.get_or_insert_with(|| format!("{}: {}\n{}", broken.place, broken.reason, broken.image));
        }
        true
    });
    Sum { collected: vec![collected], ..sum }
}

/// Runs histories with every tracker in `trackers`, and under every set of file system rules.
fn campaigns(options: &Options, trackers: &[Tracker], numbers: Range<u64>, seeds: u64) -> Sum {
    run(numbers.flat_map(|seed| histories(options, trackers, seed, seeds)).collect())
}

/// Runs histories on several column families, with every tracker and under every set of file
/// system rules.
fn family_campaigns(options: &Options, trackers: &[Tracker], numbers: Range<u64>, seeds: u64) -> Sum {
    let jobs = numbers.flat_map(|seed| histories(options, trackers, seed, seeds));
    run(jobs.map(|cuts| Cuts { families: true, ..cuts }).collect())
}

/// Runs histories on all cores. The outcomes are combined in a fixed order, so the failure that is
/// reported first does not depend on the number of cores.
fn run(jobs: Vec<Cuts>) -> Sum {
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        let work = || {
            let mut own = Vec::new();
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(cuts) = jobs.get(at) else { return own };
                own.push((at, campaign(cuts)));
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let sums = threads.into_iter().flat_map(|thread| thread.join().expect("a campaign panicked"));
        sums.collect::<BTreeMap<_, _>>().into_values().fold(Sum::default(), Sum::add)
    })
}

/// Options for universal compaction. Level 1 then has several sorted runs and is sometimes
/// compacted whole.
fn universal() -> Options {
    let mut options = Options::default();
    options.compaction_style = CompactionStyle::Universal;
    options.universal_max_size_amplification_percent = 50;
    options
}

#[test]
fn any_power_cut_leaves_a_prefix_with_everything_promised() {
    let seeds = seeds_per_step();
    let (plain, mut bundled) = (Options::default(), Options::default());
    bundled.tables = Some(TableForm::Bundled);
    let half = HISTORIES / 2;
    let sum = campaigns(&plain, &Tracker::PROMISING, 0..half, seeds);
    let given_up: u64 = sum.collected.iter().map(|one| one.tables_never_synced).sum();
    println!("{given_up} tables were given up");
    let sum = sum.add(campaigns(&bundled, &Tracker::PROMISING, half..HISTORIES, seeds));
    let sum = sum.add(campaigns(&Options::leveldb_compatible(), &Tracker::PROMISING, 0..1, seeds));
    let sum = sum.add(campaigns(&universal(), &Tracker::PROMISING, 2..4, seeds));
    sum.assert_intact();
    assert!(given_up > 200, "only {given_up} tables were given up");
    assert!(seeds < 8 || sum.states >= 100_000, "only {} states: the campaign has shrunk", sum.states);
}

/// Tests that the writes to all column families form one history: after any power cut, with every
/// durability tracker, the families together have a prefix of it. Once the call that drops a
/// family has returned, the drop must be durable.
#[test]
fn any_power_cut_leaves_a_prefix_of_all_column_families_together() {
    let mut bundled = Options::default();
    bundled.tables = Some(TableForm::Bundled);
    let seeds = seeds_per_step();
    let sum = family_campaigns(&Options::default(), &Tracker::PROMISING, 0..2, seeds);
    let sum = sum.add(family_campaigns(&bundled, &Tracker::PROMISING, 2..4, seeds));
    let sum = sum.add(family_campaigns(&universal(), &Tracker::PROMISING, 4..5, seeds));
    sum.assert_intact();
    family_campaigns(&Options::default(), &[Tracker::Never], 0..1, 1).is_broken("families that are not synced");
}

/// Tests power cuts of stores with directory tables. In the crash states, directories are created
/// or removed, and files are linked or unlinked. `TERRACE_CRASH_SEEDS` multiplies the count of
/// histories.
#[test]
fn any_power_cut_leaves_directory_tables_whole() {
    let mut options = Options::default();
    options.set("tables", "directory").expect("a form of tables");
    options.min_value_file_size = 20;
    let numbers = 0..(seeds_per_step() / 8).max(1);
    let sum = campaigns(&options, &Tracker::PROMISING, numbers.clone(), 1);
    sum.assert_intact();
    assert!(given_seeds().is_none() || sum.states >= 5000, "only {} states: the campaign has shrunk", sum.states);
    campaigns(&options, &[Tracker::Never], numbers, 1).is_broken("directory tables that are not synced");
}

/// Tests power cuts of stores with key-value separation, with and without a WAL sidecar, in each
/// GC mode. The options keep GC active all the time.
#[test]
fn any_power_cut_leaves_a_prefix_with_separated_values() {
    let mut tail = Options::preset("wisckey").expect("there is one");
    tail.value_log_threshold = 40;
    tail.value_log_segment_size = 64 << 10;
    tail.value_log_gc_percent = 1;
    let mut segments = tail.clone();
    segments.value_log_gc = GcMode::Segments;
    segments.wal_sidecar = true;
    let mut bundled = segments.clone();
    bundled.tables = Some(TableForm::Bundled);
    let (seeds, half) = (seeds_per_step().div_ceil(2), HISTORIES / 2);
    let put_again = campaigns(&tail, &Tracker::PROMISING, 0..half, seeds);
    // In these stores each table has its own file. If a compaction consumes a table before the sync
    // of this file, the sync is cancelled, even if the table has pointers to relocated values.
    let moved = campaigns(&segments, &Tracker::PROMISING, 0..half, seeds.div_ceil(2));
    let given_up: u64 = moved.collected.iter().map(|one| one.tables_never_synced).sum();
    let moved = moved.add(campaigns(&bundled, &Tracker::PROMISING, half..HISTORIES, seeds));
    let idle = |sum: &Sum, did: fn(&Collected) -> u64| sum.collected.iter().filter(|one| did(one) == 0).count();
    let (idle_tail_gc, idle_relocations) =
        (idle(&put_again, |one| one.relocated_bytes), idle(&moved, |one| one.moved_bytes));
    println!(
        "histories without collection: {idle_tail_gc} of {}, {idle_relocations} of {}",
        put_again.collected.len(),
        moved.collected.len()
    );
    assert_eq!((idle_tail_gc, idle_relocations), (0, 0), "histories in which nothing was collected");
    let sum = put_again.add(moved);
    sum.assert_intact();
    assert!(given_up > 100, "only {given_up} tables were given up");
    assert!(seeds < 4 || sum.states >= 50_000, "only {} states: the campaign has shrunk", sum.states);
    for options in [&tail, &segments, &bundled] {
        campaigns(options, &[Tracker::Never, Tracker::Lying], 0..2, 1).is_broken("values that are not synced");
    }
}

/// Tests two deliberately faulty stores: one syncs nothing, and one syncs everything except
/// tables. The suite must find that both lose data. Otherwise its other tests would prove nothing.
#[test]
fn a_store_that_skips_syncs_is_caught() {
    for tracker in [Tracker::Never, Tracker::Lying] {
        campaigns(&Options::default(), &[tracker], 0..HISTORIES, 2).is_broken(&format!("{tracker:?}"));
    }
}
