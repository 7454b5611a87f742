//! A test that measures the costs of version edits, plans and manifest snapshots in a store with
//! 100,000 tables. It prints the times and asserts only numbers of operations. Command:
//! `cargo test -p terrace --lib scale -- --nocapture`.
use super::{
    leveled::Leveled, limits::Limits, policy::Policy, reservation::RunningCompactions, situation::Situation,
    tombstones::VISITED,
};
use crate::{
    clock::Clock,
    version::{
        Contents, LevelTotals, TableRef, Version, add_to,
        run::TableChunk,
        set::{Start, VersionSet},
    },
};
use std::{collections::BTreeSet, hint::black_box, sync::Arc, time::Duration};
use terrace_format::{FamilyId, KeyOrder, Kind, LEVELS, SeqNo, TableId, edit::Edit, key};
use terrace_storage::placement::TableMeta;

const ORDER: KeyOrder = KeyOrder::Bytewise;
const TABLES: [usize; LEVELS] = [0, 0, 10, 1_000, 10_000, 88_990, 0];
const KEYS: usize = 1_000_000_000;
const TABLE_BYTES: u64 = 2 << 20;
const EDITS: usize = 50;

/// Makes table `n` of `count` tables. The `count` tables together contain all keys and do not
/// overlap.
fn table(id: u64, n: usize, count: usize) -> TableMeta {
    let width = KEYS / count;
    let bound = |key: usize| key::encode(format!("{key:012}").as_bytes(), SeqNo(1), Kind::Put);
    let bounds = (bound(n * width), bound((n + 1) * width - 1));
    TableMeta { entries: 1000, ..TableMeta::bounded(TableId(id), TABLE_BYTES, None, bounds.0, bounds.1) }
}

fn contents(tombstones: u64) -> Contents {
    Contents { entries: 1000, tombstones, newest: SeqNo(1), ..Contents::default() }
}

fn filled() -> VersionSet {
    let mut id = 1;
    let levels = TABLES.map(|count| {
        let tables = (0..count).map(|n| {
            id += 1;
            let table = TableRef::new(table(id, n, count));
            table.set_contents(contents(1));
            Arc::new(table)
        });
        tables.collect::<Vec<_>>()
    });
    let version = Version::from_tables(&ORDER, levels).expect("adjacent tables");
    VersionSet::new(ORDER, Start { version, next_file: id + 1, base: SeqNo(1), ..Start::default() })
}

/// Makes the edit that replaces table `n` of level 4 and the ten tables below it by eleven tables
/// in level 5.
fn compaction(set: &mut VersionSet, n: usize) -> Edit {
    let live = set.live().clone();
    let upper = live.levels[4].tables().nth(n).expect("a table").clone();
    let lower = live.levels[5].overlapping(&ORDER, &upper.span());
    let mut edit = Edit { deleted: vec![(4, upper.meta.id)], ..Edit::default() };
    edit.deleted.extend(lower.iter().map(|table| (5, table.meta.id)));
    for old in &lower {
        let meta = TableMeta { id: TableId(set.new_number()), ..old.meta.clone() };
        add_to(&mut edit, 5, &meta);
    }
    edit
}

fn plan(set: &VersionSet) -> bool {
    let (busy, reserved_numbers) = (RunningCompactions::default(), BTreeSet::new());
    let limits = Limits {
        target_file_size: TABLE_BYTES,
        max_bytes_for_level_base: 1 << 60,
        level0_file_num_compaction_trigger: 4,
        tombstone_compaction_percent: 50,
        ..Limits::default()
    };
    let ctx = Situation {
        family: FamilyId::DEFAULT,
        order: &ORDER,
        version: set.live(),
        busy: &busy,
        pointers: set.pointers(),
        limits: &limits,
        reserved_numbers: &reserved_numbers,
        seek_hint: None,
        oldest_reader: SeqNo(1),
        room: u64::MAX,
        shadow_ratio: 0.0,
    };
    Leveled.plan(&ctx).is_some()
}

fn chunks(version: &Version) -> BTreeSet<*const TableChunk> {
    version.runs().iter().flat_map(|(_, run)| run.chunks()).map(Arc::as_ptr).collect()
}

#[test]
fn costs_with_100_000_tables() {
    let mut set = filled();
    let mut times = [Duration::ZERO; 4];
    let mut timed = |at: usize, work: &mut dyn FnMut()| {
        let start = Clock::start();
        work();
        times[at] += start.now();
    };
    for n in 0..EDITS {
        let edit = compaction(&mut set, n * 97);
        let before = set.live().clone();
        timed(0, &mut || {
            let added: Vec<_> = edit.added.iter().map(|(_, table)| (table.id, contents(1))).collect();
            set.install_compaction(edit.clone(), Vec::new(), 0, |_| false).expect("it applies").set_contents(5, added);
        });
        timed(1, &mut || assert!(!plan(&set), "no level is due"));
        let live = set.live().clone();
        timed(2, &mut || {
            let count = set.committable().expect("durable").0;
            drop(black_box(set.mark_committed(count).expect("it applies")));
        });
        let copied = chunks(set.live()).difference(&chunks(&before)).count();
        assert!(copied <= 6, "{copied} chunks copied by an edit of twelve tables in two levels");
        assert!(Arc::ptr_eq(set.live(), &live), "a commit changes no live version");
    }
    assert_eq!(VISITED.get(), 0, "tables visited for tombstones, although none has many");
    let totals = LevelTotals::of(set.live().levels[5].tables());
    assert_eq!(set.live().levels[5].totals(), &totals);
    timed(3, &mut || drop(black_box(set.snapshot(&[]))));
    let micros = |at: usize, times_run: u32| times[at].as_secs_f64() * 1e6 / f64::from(times_run);
    println!(
        "100,000 tables, µs each: install {:.0}, plan {:.0}, commit {:.0}, manifest snapshot {:.0}",
        micros(0, EDITS as u32),
        micros(1, EDITS as u32),
        micros(2, EDITS as u32),
        micros(3, 1)
    );
}
