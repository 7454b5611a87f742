//! Tests that run the compaction policies on random trees. Compactions run concurrently and end in
//! any order.
mod tree;

use super::{
    inputs::rewrite_in_place,
    leveled::{Leveled, score},
    limits::Limits,
    policy::Policy,
    policy_of, seek_compaction,
    situation::Situation,
    split, tombstones, value_log_gc,
};
use crate::{
    compact::reservation::{Reservation, RunningCompactions},
    version::{
        Contents, KeyRange, LevelTotals, TableRef, add_to,
        set::{Start, VersionSet},
    },
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use terrace_format::{FamilyId, Kind, LEVELS, LogId, SegmentId, SeqNo, TableId, edit::Edit, key};
use terrace_storage::placement::{ObjectId, TableMeta};
pub use tree::Tree;
use tree::*;

/// Tests a compaction of level 0 that waits for a running compaction of level 1. Further
/// compactions of level 1, which are less urgent, must not start meanwhile, because each would
/// delay the waiting compaction again. The reservation of the compaction of level 0, which covers
/// all keys, must prevent them.
#[test]
fn a_less_urgent_compaction_does_not_block_a_reserved_one() {
    let limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 5500,
        level0_file_num_compaction_trigger: 2,
        ..Limits::default()
    };
    let mut tree = Tree::new(0, limits, 2);
    let mut edit = Edit::default();
    for n in 0..6 {
        let id = TableId(tree.versions.new_number());
        add_to(&mut edit, 1, &tree.made(id, vec![(user(10 * n), 1, Kind::Put)]));
        let id = TableId(tree.versions.new_number());
        add_to(&mut edit, 2, &tree.made(id, vec![(user(10 * n), 0, Kind::Put)]));
    }
    tree.versions.install_flush(edit, SeqNo(1), LogId(0), 0, Vec::new()).expect("tables");
    tree.last = 2;
    tree.schedule();
    assert_eq!(tree.running.iter().map(|plan| plan.level).collect::<Vec<_>>(), [1], "level 1 is due once");
    for _ in 0..4 {
        tree.sealed.push_back((
            tree.versions.new_sealed_number(false),
            vec![(user(0), 2, Kind::Put), (user(50), 2, Kind::Put)],
        ));
        tree.flush();
    }
    tree.limits.max_bytes_for_level_base = 3000; // level 1 is due again
    tree.schedule();
    assert_eq!(tree.running.len(), 1, "level 0 is more urgent, and would be blocked again");
    tree.end_one();
    let manual = tree.situated(|ctx| Leveled.plan_range(ctx, 1, &KeyRange::default())).expect("tables");
    tree.busy.reserve_manual(Some(Reservation::of(&ORDER, &manual)));
    tree.schedule();
    assert!(tree.running.is_empty(), "a manual compaction comes before both");
    tree.busy.reserve_manual(None);
    tree.schedule();
    assert_eq!(tree.running.iter().map(|plan| plan.level).collect::<Vec<_>>(), [0], "now level 0 is compacted");
}

/// Tests that a compaction of level 0 is due because of the bytes of level 0 only in an idle
/// store. While a workload overwrites the same keys, compactions of level 0 into level 1 would
/// write much and reclaim little.
#[test]
fn level_0_is_due_by_bytes_only_in_an_idle_store() {
    let limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 2000,
        level_compaction_dynamic_level_bytes: true,
        level0_file_num_compaction_trigger: 4,
        ..Limits::default()
    };
    let mut tree = Tree::stacked(limits, [3, 1, 0, 0, 0, 0, 0]);
    tree.settle();
    assert_eq!(tree.tables_held(), [3, 1, 0, 0, 0, 0, 0]);
    tree.busy.idle.set_idle(tree.last);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 1, "a run of half the base is left");
    let mut tree = Tree::stacked(limits, [4, 1, 0, 0, 0, 0, 0]);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 3, "the trigger by runs does not wait");
}

#[test]
fn tables_that_overlap_several_ranges_count_once() {
    // Level 1 of the test tree has a table at every 15th key.
    let tree = Tree::stacked(Limits::default(), [0, 10, 0, 0, 0, 0, 0]);
    let bytes = |ranges: &[(usize, usize)]| {
        let keys: Vec<_> = ranges.iter().map(|(from, to)| [*from, *to].map(user)).collect();
        let ranges: Vec<_> = keys.iter().map(|[from, to]| KeyRange { from: Some(from), to: Some(to) }).collect();
        tree.versions.live().levels[1].overlapping_bytes(&ORDER, &ranges)
    };
    assert_eq!(bytes(&[]), 0);
    assert_eq!(bytes(&[(1, 14), (136, 149)]), 0, "between tables, and after the last");
    assert_eq!(bytes(&[(15, 30), (0, 15), (30, 45), (20, 31)]), 4000);
    assert_eq!(bytes(&[(0, 149), (30, 30)]), 10_000);
}

/// Tests that level 0 waits while it has less than half of the bytes of level 1, because its
/// compaction would rewrite too much of level 1. Many runs or an idle store end the wait. Each run
/// of level 0 has 2000 bytes and overlaps all of level 1.
#[test]
fn level_0_waits_until_it_is_large_enough_or_long_or_the_store_is_idle() {
    let mut limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 1 << 20,
        level0_file_num_compaction_trigger: 2,
        ..Limits::default()
    };
    (limits.level0_min_overlap_percent, limits.l0_pressing_runs, limits.intra_l0_compaction_trigger) = (50, 5, 2);
    let filled = |runs: usize, below: usize| {
        let mut tree = Tree::stacked(limits, [0, below, 0, 0, 0, 0, 0]);
        (0..runs).for_each(|_| tree.flush_wide());
        tree
    };
    let remaining = [(2, 9), (2, 8), (4, 17), (5, 21)].map(|(runs, below)| {
        let mut tree = filled(runs, below);
        tree.settle();
        tree.tables_held()[0]
    });
    assert_eq!(remaining, [2, 0, 4, 0]);

    let mut tree = filled(2, 9);
    tree.busy.idle.set_idle(tree.last);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 0, "the store is idle");

    let mut tree = Tree::stacked(limits, [4, 1, 0, 0, 0, 0, 0]);
    tree.settle();
    assert_eq!(tree.tables_held()[0], 1, "a small overlap does not wait");

    let mut tree = filled(3, 12);
    tree.schedule();
    assert_eq!(tree.running.len(), 1, "large enough");
    (0..2).for_each(|_| tree.flush_wide());
    let plan = tree.situated(|ctx| Leveled.plan(ctx)).expect("runs being compacted are still probed");
    assert_eq!((plan.output_level, plan.upper.len()), (0, 2), "intra-L0 compaction meanwhile");
}

/// Tests a compaction of level 0 on a nearly full disk: it takes only the oldest runs, as many as
/// there is space for.
#[test]
fn a_compaction_of_level_0_takes_the_runs_that_fit() {
    let limits = Limits {
        target_file_size: 10_000,
        max_bytes_for_level_base: 20_000,
        level0_file_num_compaction_trigger: 4,
        ..Limits::default()
    };
    let mut tree = Tree::stacked(limits, [0, 10, 0, 0, 0, 0, 0]);
    let runs: Vec<u64> = (0..6)
        .map(|_| {
            tree.flush_wide();
            tree.versions.live().levels[0].tables().next().expect("a run").meta.bytes
        })
        .collect();
    let lower = tree.versions.live().levels[1].bytes();
    let mut planned = |room| {
        tree.room = room;
        let plan = tree.situated(|ctx| Leveled.plan(ctx)).expect("level 0 is due");
        let mut ids: Vec<_> = plan.upper.iter().map(|table| table.meta.id).collect();
        ids.sort();
        let mut all: Vec<_> = tree.versions.live().levels[0].tables().map(|table| table.meta.id).collect();
        all.sort();
        assert_eq!(ids[..], all[..ids.len()], "the oldest runs");
        ids.len()
    };
    let total: u64 = runs.iter().sum::<u64>() + lower;
    assert_eq!([u64::MAX, total, total - 1, lower + runs[0] + runs[1], 0].map(&mut planned), [6, 6, 5, 2, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn any_interleaving_keeps_every_read_right_and_no_level_starves(
        seed in any::<u64>(),
        jobs_max in 1..5usize,
        level0_file_num_compaction_trigger in 1..5u64,
        intra_l0_compaction_trigger in 0..4u64,
        l0_pressing_runs in 1..9u64,
        level0_min_overlap_percent in prop::sample::select(vec![0u64, 70, 300]),
        min_overlapping_ratio in any::<bool>(),
        level_compaction_dynamic_level_bytes in any::<bool>(),
        max_entries_for_level_base in prop::sample::select(vec![0u64, 20]),
        tombstone_compaction_percent in prop::sample::select(vec![0u64, 10, 50]),
        room in prop::sample::select(vec![0, 5000, 40_000, u64::MAX]),
    ) {
        let limits =
            Limits { target_file_size: 10_000, max_bytes_for_level_base: 20_000, level_compaction_dynamic_level_bytes, level0_file_num_compaction_trigger, l0_pressing_runs, level0_min_overlap_percent, intra_l0_compaction_trigger, min_overlapping_ratio, max_entries_for_level_base, tombstone_compaction_percent };
        let mut tree = Tree::new(seed, limits, jobs_max);
        tree.room = room;
        for _ in 0..400 {
            match tree.rng.below(10) {
                0..3 => tree.seal(),
                3..6 => tree.flush(),
                6..9 => tree.end_one(),
                _ => tree.commit_edits(),
            }
            if tree.rng.chance(1, 20) {
                let idle = tree.rng.chance(1, 2);
                if idle { tree.busy.idle.set_idle(tree.last) } else { tree.busy.idle.look(u64::MAX) }
                tree.busy.idle.set_long_idle(idle);
            }
            tree.schedule();
            tree.check_reads();
        }
        tree.run_to_the_end(Tree::schedule);
        prop_assert_eq!(tree.situated(due), Vec::<usize>::new(), "a due level was not compacted");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Tests random histories in which the compaction policy may change, as if the store was
    /// reopened with another policy. Reads must stay correct, and sorted runs must stay few.
    #[test]
    fn any_interleaving_of_policies_keeps_every_read_right_and_bounds_the_runs(
        seed in any::<u64>(),
        jobs_max in 1..5usize,
        trigger in 1..6u64,
        intra_l0_compaction_trigger in 0..4u64,
        size_ratio in prop::sample::select(vec![0u64, 1, 50]),
        max_size_amplification_percent in prop::sample::select(vec![20u64, 200]),
        level_compaction_dynamic_level_bytes in any::<bool>(),
        changes in any::<bool>(),
    ) {
        let limits = Limits {
            target_file_size: 10_000,
            max_bytes_for_level_base: 20_000,
            level_compaction_dynamic_level_bytes,
            level0_file_num_compaction_trigger: trigger,
            intra_l0_compaction_trigger,
            l0_pressing_runs: 9,
            ..Limits::default()
        };
        let mut options = crate::Options::leveldb_compatible();
        options.compaction_style = crate::CompactionStyle::Universal;
        options.universal_size_ratio = size_ratio;
        options.universal_max_size_amplification_percent = max_size_amplification_percent;
        let mut tree = Tree::new(seed, limits, jobs_max);
        tree.policy = policy_of(&options);
        for _ in 0..400 {
            match tree.rng.below(10) {
                0..3 => tree.seal(),
                3..6 => tree.flush(),
                6..9 => tree.end_one(),
                _ => tree.commit_edits(),
            }
            if changes && tree.rng.chance(1, 50) {
                while !tree.running.is_empty() {
                    tree.end_one();
                }
                let style = crate::CompactionStyle::ALL[tree.rng.below(2)];
                options.compaction_style = style;
                tree.policy = policy_of(&options);
            }
            if tree.rng.chance(1, 10) {
                tree.start_manual();
            }
            tree.start_all();
            tree.check_reads();
        }
        options.compaction_style = crate::CompactionStyle::Universal;
        tree.policy = policy_of(&options);
        tree.start_all();
        tree.run_to_the_end(Tree::start_all);
        let runs = tree.versions.live().runs().len() as u64;
        prop_assert!(runs <= trigger.max(2), "{runs} runs are left with trigger {trigger}");
        tree.policy = Box::new(Leveled);
        tree.start_all();
        tree.run_to_the_end(Tree::start_all);
        prop_assert!((1..LEVELS).all(|level| tree.versions.live().levels[level].runs.len() <= 1), "one run per level");
    }
}

#[test]
fn an_edit_may_list_the_tables_of_its_runs_in_any_order() {
    let mut tree = Tree::new(1, Limits::default(), 1);
    let mut edit = Edit::default();
    for (run, n) in [(7, 60), (3, 40), (7, 20), (0, 50), (7, 40), (3, 20)] {
        let id = TableId(tree.versions.new_number());
        let meta = tree.made(id, vec![(user(n), id.0, Kind::Put)]);
        add_to(&mut edit, 1, &TableMeta { run, ..meta });
    }
    let version = tree.versions.install_flush(edit, SeqNo(9), LogId(0), 0, Vec::new()).expect("runs");
    let first_keys = |run: &crate::version::Run| run.iter().map(|table| table.smallest().to_vec()).collect::<Vec<_>>();
    let runs: Vec<_> = version.runs().iter().map(|(_, run)| first_keys(run)).collect();
    assert_eq!(runs, [vec![user(20), user(40), user(60)], vec![user(20), user(40)], vec![user(50)]], "newest first");
}

/// Tests the compaction score of a level that is sized by entries. A table with an unknown number
/// of entries must count by its bytes, even if other tables of the level have a known number.
#[test]
fn tables_with_unknown_entries_count_by_bytes() {
    let table = |id, bytes, entries| {
        let [smallest, largest] = [1, 2].map(|n| key::encode(&user(10 * id as usize + n), SeqNo(1), Kind::Put));
        TableMeta { entries, ..TableMeta::bounded(TableId(id), bytes, None, smallest, largest) }
    };
    let mut edit = Edit::default();
    [table(2, 500, 0), table(3, 7000, 30), table(4, 700, 0)].iter().for_each(|meta| add_to(&mut edit, 1, meta));
    let mut versions = VersionSet::new(ORDER, Start { next_file: 5, ..Start::default() });
    let version = versions.install_flush(edit, SeqNo(1), LogId(1), 0, Vec::new()).unwrap();
    let totals = LevelTotals::of(version.levels[1].tables());
    assert_eq!(totals, LevelTotals { tables: 3, bytes: 8200, entries: 30, uncounted_bytes: 1200 });
    let limits = Limits { max_bytes_for_level_base: 1000, max_entries_for_level_base: 100, ..Limits::default() };
    let sizes = limits.level_targets(&[0; LEVELS]);
    assert!((score(&limits, &sizes, 1, &totals, false) - (0.03 + 1.2)).abs() < 1e-9);
    let none = totals.minus(&totals);
    assert_eq!(none, LevelTotals::default());
    assert!(
        (score(&Limits { max_entries_for_level_base: 0, ..limits }, &sizes, 1, &totals, false) - 8.2).abs() < 1e-9,
        "levels are sized by bytes"
    );
}

/// Tests that a rewrite in place includes every older version of its keys in the level. Otherwise
/// the rewrite could drop a tombstone, and the deleted version of the key in a table that was left
/// out would be visible again.
#[test]
fn a_rewrite_in_place_includes_all_versions_of_its_last_key() {
    let mut tree = Tree::new(0, Limits::default(), 1);
    let mut edit = Edit::default();
    let mut ids = Vec::new();
    for (first, last) in [((1, 9), (2, 9)), ((2, 5), (2, 3)), ((2, 1), (3, 1)), ((4, 1), (5, 1))] {
        let entry = |(n, seq): (usize, u64)| (user(n), seq, Kind::Put);
        ids.push(TableId(tree.versions.new_number()));
        add_to(&mut edit, 2, &tree.made(ids[ids.len() - 1], vec![entry(first), entry(last)]));
    }
    tree.versions.install_flush(edit, SeqNo(9), LogId(0), 0, Vec::new()).expect("tables");
    let picked_ids = |after: Option<usize>, older: u64| -> Vec<TableId> {
        let (after, all) = (after.map(user), KeyRange::default());
        let plan = tree.situated(|ctx| rewrite_in_place(ctx, 2, &all, after.as_deref(), TableId(older)));
        plan.map_or_else(Vec::new, |plan| plan.inputs().map(|(_, table)| table.meta.id).collect())
    };
    assert_eq!(picked_ids(None, u64::MAX), ids[..3]);
    assert_eq!(picked_ids(Some(3), u64::MAX), ids[3..]);
    assert_eq!(picked_ids(Some(3), ids[3].0), [], "its number is not below");
    assert_eq!(picked_ids(Some(5), u64::MAX), []);
}

/// Tests the price of a seek compaction of a level-0 table, in bytes. It must include the
/// overlapping bytes of the first deeper level with an overlap, and no bytes of any other deeper
/// level.
#[test]
fn a_seek_compaction_is_priced_by_the_first_level_with_an_overlap() {
    let price = |levels| {
        let tree = Tree::stacked(Limits { target_file_size: 1000, ..Limits::default() }, levels);
        let table = tree.versions.live().levels[0].tables().next().expect("a table").meta.id;
        tree.situated(|ctx| seek_compaction::price(ctx, (0, table)).map(|(_, bytes)| bytes))
    };
    assert_eq!(price([1, 1, 1, 0, 0, 0, 0]), Some(2000));
    assert_eq!(price([1, 0, 0, 1, 1, 0, 0]), Some(2000));
    assert_eq!(price([1, 0, 0, 0, 0, 0, 0]), Some(1000));

    let mut tree = Tree::stacked(Limits { target_file_size: 1000, ..Limits::default() }, [1, 0, 1, 0, 0, 0, 0]);
    let table = tree.versions.live().levels[0].tables().next().expect("a table").meta.id;
    let planned = |tree: &Tree, hint| {
        tree.situated(|ctx| seek_compaction::plan(&Situation { seek_hint: Some(hint), ..*ctx })).expect("a plan")
    };
    let moves = planned(&tree, (0, table));
    assert!(moves.trivial_move);
    assert_eq!(seek_compaction::left_of_hint(&moves, table, false), None, "LevelDB drops the hint after a move");
    let hint = seek_compaction::left_of_hint(&moves, table, true).expect("the seeks have paid for a merge");
    tree.begin(moves);
    tree.end_one();
    let merges = planned(&tree, hint);
    assert_eq!((merges.level, merges.lower.len(), merges.trivial_move), (1, 1, false));
    assert_eq!(seek_compaction::left_of_hint(&merges, table, true), None);
}

#[test]
fn a_seek_budget_is_extended_once_and_less_the_seeks_already_charged() {
    const FIRST: usize = 100; // LevelDB's minimum
    let charged = |times: usize| {
        let table = TableRef::new(TableMeta::unbounded(TableId(1), 1));
        let exhausted = (0..times).filter(|_| table.charge_seek()).count();
        (table, exhausted)
    };
    let (table, exhausted) = charged(FIRST);
    assert_eq!(exhausted, 1);
    assert!(table.extend_seek_budget(150));
    assert_eq!((0..49).filter(|_| table.charge_seek()).count(), 0);
    assert!(table.charge_seek(), "the last of 150");
    assert!(!table.extend_seek_budget(1000), "twice");
    assert!(!charged(FIRST).0.extend_seek_budget(FIRST as u64), "no more than the initial budget");
    assert!(!charged(150).0.extend_seek_budget(150), "already charged");
}

#[test]
fn tombstones_in_the_last_level_are_dropped_by_a_rewrite_in_place() {
    let limits = Limits {
        target_file_size: 1000,
        max_bytes_for_level_base: 1 << 20,
        tombstone_compaction_percent: 50,
        ..Limits::default()
    };
    let tree = Tree::stacked(limits, [0, 0, 0, 0, 0, 0, 1]);
    assert!(tree.situated(|ctx| Leveled.plan(ctx)).is_none(), "contents unknown");
    let contents = Contents { entries: 1, tombstones: 1, newest: SeqNo(1), ..Contents::default() };
    tree.versions.live().tables().for_each(|(_, table)| table.set_contents(contents.clone()));
    let plan = tree.situated(|ctx| Leveled.plan(ctx)).expect("a plan");
    assert_eq!((plan.level, plan.output_level), (LEVELS - 1, LEVELS - 1));
}

/// Tests a manifest whose tables declare huge sizes. Sums of these sizes must saturate at the
/// largest integer. In tests, an overflow would panic.
#[test]
fn any_sizes_in_a_manifest_are_summed_without_overflow() {
    let limits = Limits { target_file_size: u64::MAX / 2, tombstone_compaction_percent: 50, ..Limits::default() };
    for (min_overlapping_ratio, level_compaction_dynamic_level_bytes) in [(false, false), (true, true)] {
        let limits = Limits { min_overlapping_ratio, level_compaction_dynamic_level_bytes, ..limits };
        let mut versions = VersionSet::new(ORDER, Start { next_file: 100, ..Start::default() });
        let mut edit = Edit::default();
        for id in 2..20_u64 {
            let [smallest, largest] =
                [0, 9].map(|n| key::encode(&user(10 * (id as usize / 6) + n), SeqNo(id), Kind::Put));
            let refs = vec![(ObjectId::Segment(SegmentId(id % 3)), u64::MAX)];
            let meta = TableMeta::bounded(TableId(id), u64::MAX, None, smallest, largest);
            add_to(&mut edit, id as usize % 6, &TableMeta { entries: u64::MAX, refs, ..meta });
        }
        versions.install_flush(edit, SeqNo(99), LogId(0), u64::MAX, Vec::new()).expect("it applies");
        versions.install_flush(Edit::default(), SeqNo(99), LogId(0), 9, Vec::new()).expect("it applies");
        let live = versions.live().clone();
        let ranges = vec![(user(0), user(99))];
        let contents =
            Contents { entries: u64::MAX, tombstones: u64::MAX, shadowed: u64::MAX, ranges, newest: SeqNo(9) };
        live.tables().for_each(|(_, table)| table.set_contents(contents.clone()));
        assert_eq!(versions.retained_bytes(), u64::MAX);
        limits.debt(&live.held());
        live.charge_range_read(u64::MAX);
        live.charge_range_read(u64::MAX);
        let (mut busy, reserved_numbers) = (RunningCompactions::default(), versions.reserved_numbers().clone());
        for idle in [false, true] {
            busy.idle.set_long_idle(idle);
            let ctx = Situation {
                family: FamilyId::DEFAULT,
                order: &ORDER,
                version: &live,
                busy: &busy,
                pointers: versions.pointers(),
                limits: &limits,
                reserved_numbers: &reserved_numbers,
                seek_hint: Some((1, TableId(7))),
                oldest_reader: SeqNo(99),
                room: u64::MAX,
                shadow_ratio: 1.0,
            };
            (0..LEVELS - 1).for_each(|level| drop(Leveled.plan_range(&ctx, level, &KeyRange::default())));
            assert!(Leveled.plan(&ctx).is_some());
            tombstones::plan(&ctx, |_| false);
            (0..LEVELS - 1).for_each(|level| {
                seek_compaction::price(&ctx, (level, TableId(6 + level as u64)));
            });
            Leveled.level_for_flush(&ctx, &KeyRange::default());
        }
        let segments = &versions.segments;
        assert_eq!(segments.sum().live, u64::MAX);
        value_log_gc::victims(segments, &BTreeSet::new(), 20);
        value_log_gc::oldest(segments, &BTreeSet::new(), 20);
        split::cuts(&ORDER, vec![(user(1), u64::MAX), (user(2), u64::MAX)], 3);
        let edit =
            Edit { deleted: live.tables().map(|(level, table)| (level, table.meta.id)).collect(), ..Edit::default() };
        versions.install_compaction(edit, Vec::new(), 0, |_| false).expect("it applies");
        assert_eq!(versions.retained_bytes(), u64::MAX);
        let count = versions.committable().expect("durable").0;
        versions.mark_committed(count).expect("it applies");
        assert_eq!(versions.retained_bytes(), 0);
    }
}
