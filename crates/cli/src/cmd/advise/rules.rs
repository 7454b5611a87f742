//! The rules of `advise`. Each rule is a pure function of the facts.
use super::{Advice, facts::Facts, session::Session};
use crate::table::size;
use std::{num::NonZero, thread};
use terrace::{Codec, Values};

/// A part of the session's time that is worth a change: 5 %.
const TIME_PART: f64 = 0.05;
/// Number of lookups below which a session says nothing about reads.
const LOOKUPS_MIN: f64 = 10_000.0;
/// The largest memtable that follows from a memory budget.
const MEMTABLE_MAX: f64 = (64 << 20) as f64;
/// Size of a store below which its space does not matter.
const BYTES_MIN: u64 = 64 << 20;

/// Returns all advice, the most important first.
pub fn all(facts: &Facts) -> Vec<Advice> {
    let of_session = facts.session.as_ref().into_iter().flat_map(|session| {
        [stalls, syncs, memory, sorted_runs, filters, large_values].map(|rule| rule(facts, session))
    });
    of_session.chain([compression(facts), space(facts), garbage(facts), open_files(facts)]).flatten().collect()
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole.max(f64::MIN_POSITIVE)
}

/// Returns a size in the form that options have.
fn setting(bytes: f64) -> String {
    format!("{}MiB", (bytes as u64).div_ceil(1 << 20))
}

/// Write stalls: the advice follows from the work that writes waited for most.
fn stalls(_: &Facts, session: &Session) -> Option<Advice> {
    let (seconds, causes) = (session.number("seconds"), session.numbers("stall_seconds"));
    let stalled: f64 = causes.iter().map(|(_, time)| time).sum();
    if stalled < TIME_PART * seconds {
        return None;
    }
    let (cause, _) = causes.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (work, change, cost) = match *cause {
        "memtables" => more_memtables(session),
        "durability" => {
            let change = format!("unsynced_bytes_limit={}", setting(2.0 * session.number("unsynced_bytes_limit")));
            let cost = "more space for WALs and obsolete files, a longer recovery. No help if the disk is nearly full";
            ("syncs of SSTables", change, cost)
        }
        _ => more_compactions(session),
    };
    Some(Advice {
        limit: "write_stalls",
        evidence: format!(
            "Writes waited {stalled:.1} s of {seconds:.0} s ({:.0} %), mostly for {work}.",
            percent(stalled, seconds)
        ),
        change,
        effect: format!("saves at most {stalled:.1} s; cost: {cost}"),
    })
}

fn more_memtables(session: &Session) -> (&'static str, String, &'static str) {
    let [budget, size, number] =
        ["memory_budget", "write_buffer_size", "max_write_buffer_number"].map(|name| session.number(name));
    // Whether the size follows from the budget and may grow with it.
    let follows = size < MEMTABLE_MAX && (size - budget / 2.0 / number.max(1.0)).abs() < 1.0;
    let change = match follows {
        true => format!("memory_budget={}", setting(2.0 * budget)),
        false => format!("max_write_buffer_number={:.0}", (2.0 * number).min(64.0)),
    };
    ("flushes", change, "memory, a longer recovery. If writes arrive this fast all the time, only a faster drive helps")
}

fn more_compactions(session: &Session) -> (&'static str, String, &'static str) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(8) as f64;
    if session.number("max_background_compactions") < threads {
        let change = format!("max_background_compactions={threads}");
        return ("compactions", change, "processor time while the store is written");
    }
    if session.is("universal") {
        return ("compactions", "a faster drive; no option helps here".into(), "none in the store");
    }
    let change = "a new store with compaction_style=universal (terrace convert), if writes matter more than space";
    let cost = "up to three times the space and more sorted runs for each read; LevelDB refuses the store";
    ("compactions", change.into(), cost)
}

/// Blocking syncs of flushes and compactions.
fn syncs(_: &Facts, session: &Session) -> Option<Advice> {
    let (seconds, waited) = (session.number("seconds"), session.table_sync_seconds());
    let is_each = session.text("durability") == "sync";
    (is_each && waited >= TIME_PART * seconds).then(|| Advice {
        limit: "syncs",
        evidence: format!("Writes, flushes and compactions waited {waited:.1} s of {seconds:.0} s for syncs: each SSTable is synced by itself."),
        change: "durability=auto".into(),
        effect: format!("SSTables are synced in batches, so up to {waited:.1} s; cost: obsolete files stay until the next batch. Synced writes keep their promise"),
    })
}

/// Reads of blocks from storage that a larger cache would save.
fn memory(facts: &Facts, session: &Session) -> Option<Advice> {
    let [lookups, reads, used, budget] =
        ["lookups", "storage_reads", "memory_bytes", "memory_budget"].map(|name| session.number(name));
    let is_full = budget > 0.0 && used > 0.75 * budget && (facts.bytes() as f64) > budget;
    if lookups < LOOKUPS_MIN || reads < 0.1 * lookups || !is_full {
        return None;
    }
    let more = (4.0 * budget).min(1.125 * facts.bytes() as f64);
    Some(Advice {
        limit: "memory",
        evidence: format!(
            "There were {reads:.0} reads from storage for {lookups:.0} lookups, and the memory budget of {} was used up.",
            size(budget as u64)
        ),
        change: format!("memory_budget={}", setting(more)),
        effect: format!(
            "at most these {reads:.0} reads, fewer if they are spread over the whole store ({}); cost: memory",
            size(facts.bytes())
        ),
    })
}

/// Lookups that search many sorted runs.
fn sorted_runs(_: &Facts, session: &Session) -> Option<Advice> {
    let (lookups, searched) = (session.number("lookups"), session.number("searched_tables"));
    (lookups >= LOOKUPS_MIN && searched > 5.0 * lookups).then(|| Advice {
        limit: "sorted_runs",
        evidence: format!(
            "A lookup searched {:.1} SSTables on average, including those whose filter excludes the key.",
            searched / lookups
        ),
        change: "`terrace compact`, once the store is written less".into(),
        effect: "a lookup searches one or two SSTables; cost: the compaction rewrites the store".into(),
    })
}

/// Lookups in SSTables without filters.
fn filters(_: &Facts, session: &Session) -> Option<Advice> {
    let (lookups, searched) = (session.number("lookups"), session.number("searched_tables"));
    (!session.is("filters") && lookups >= LOOKUPS_MIN && searched > 1.5 * lookups).then(|| Advice {
        limit: "filters",
        evidence: format!(
            "A lookup searched {:.1} SSTables on average, and the store writes no filters.",
            searched / lookups
        ),
        change: "bloom_bits=10; SSTables get filters when compactions rewrite them".into(),
        effect: "a lookup reads one block, and one of an absent key hardly ever reads; cost: 10 bits per key".into(),
    })
}

/// Large values that compactions rewrite.
fn large_values(facts: &Facts, session: &Session) -> Option<Advice> {
    let [flushed, compacted] = ["flushes.bytes_written", "compactions.bytes_written"].map(|name| session.number(name));
    let value_bytes = facts.pairs.value_size();
    let in_tables = facts.statistics.layout.values == Values::Table;
    let amplifies = flushed >= BYTES_MIN as f64 && compacted > 3.0 * flushed;
    (in_tables && value_bytes >= 4 << 10 && amplifies).then(|| Advice {
        limit: "large_values",
        evidence: format!(
            "Compactions wrote {:.1} times the flushed bytes, and an average value has {}.",
            compacted / flushed,
            size(value_bytes)
        ),
        change: "a new store with values=log (terrace convert --option values=log)".into(),
        effect: format!("compactions no longer rewrite values: up to {} less; cost: one more read for each value, LevelDB refuses the store", size(compacted as u64)),
    })
}

/// A codec that would save a fifth of the store.
fn compression(facts: &Facts) -> Option<Advice> {
    let now = match facts.session.as_ref().and_then(|session| Codec::from_name(session.text("compression"))) {
        Some(codec) => codec,
        None => facts.options.compression,
    };
    let bytes = facts.bytes();
    let saved = 1.0 - facts.pairs.ratio(Codec::Zstd) / facts.pairs.ratio(now);
    (bytes >= BYTES_MIN && facts.pairs.pairs > 0 && saved >= 0.2).then(|| Advice {
        limit: "space",
        evidence: format!(
            "In a sample of {} pairs, blocks with zstd take {:.0} % less space than with {}.",
            facts.pairs.pairs,
            100.0 * saved,
            now.name()
        ),
        change: "a copy with zstd: `terrace convert OLD NEW --option compression=zstd`".into(),
        effect: format!(
            "about {} instead of {}; cost: processor time, LevelDB 1.23 cannot read the store",
            size((bytes as f64 * (1.0 - saved)) as u64),
            size(bytes)
        ),
    })
}

/// Overwritten and deleted entries above the last level.
fn space(facts: &Facts) -> Option<Advice> {
    let levels = &facts.statistics.levels;
    let all: u64 = levels.iter().map(|level| level.bytes).sum();
    let last = levels.iter().rev().map(|level| level.bytes).find(|bytes| *bytes > 0)?;
    (all >= BYTES_MIN && all > last / 4 * 5).then(|| Advice {
        limit: "obsolete_entries",
        evidence: format!(
            "The levels above the last one have {} of {}: entries that may replace older ones.",
            size(all - last),
            size(all)
        ),
        change: "`terrace compact`, once the store is written less".into(),
        effect: format!(
            "at most {} of space, and fewer sorted runs for each read; cost: the compaction rewrites the store",
            size(all - last)
        ),
    })
}

/// Garbage in the value log.
fn garbage(facts: &Facts) -> Option<Advice> {
    let log = facts.statistics.value_log;
    let garbage = log.bytes.saturating_sub(log.live_bytes);
    let limit = facts.session.as_ref().map_or(0.0, |session| session.number("value_log_gc_percent")).max(20.0);
    (log.bytes >= BYTES_MIN && 100.0 * garbage as f64 > log.bytes as f64 * (limit + 20.0)).then(|| Advice {
        limit: "value_log_garbage",
        evidence: format!("{} of the {} in the value log are garbage.", size(garbage), size(log.bytes)),
        change: "`terrace compact`, or a smaller value_log_gc_percent".into(),
        effect: format!("up to {} of space; cost: live values are written again", size(garbage)),
    })
}

/// SSTables that are closed and opened again.
fn open_files(facts: &Facts) -> Option<Advice> {
    let (tables, limit) = (facts.tables(), facts.session.as_ref()?.number("max_open_files") as u64);
    (limit > 0 && tables > limit).then(|| Advice {
        limit: "open_files",
        evidence: format!("The store has {tables} SSTables, of which {limit} can be open."),
        change: format!("max_open_files={}, or a larger target_file_size", tables.next_power_of_two()),
        effect: "reads do not open SSTables again; cost: a file descriptor for each".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::{super::facts::Sample, *};
    use terrace::{LevelStatistics, Options, Statistics};

    fn facts(log: &str) -> Facts {
        let level = |bytes| LevelStatistics { tables: bytes >> 24, bytes, ..LevelStatistics::default() };
        Facts {
            path: "store".into(),
            options: Options::default(),
            statistics: Statistics { levels: vec![level(16 << 20), level(1 << 30)], ..Statistics::default() },
            pairs: Sample { pairs: 100, key_bytes: 1000, value_bytes: 10_000, ratios: Vec::new() },
            session: Session::last_in(log),
        }
    }

    fn limits(facts: &Facts) -> Vec<&'static str> {
        all(facts).iter().map(|advice| advice.limit).collect()
    }

    #[test]
    fn a_healthy_store_gets_no_advice() {
        let healthy =
            r#"t statistics: {"seconds":60,"lookups":100000,"searched_tables":120000,"storage_reads":10,"filters":true,
            "memory_bytes":100000000,"memory_budget":134217728,"stall_seconds":{"memtables":0.1}}"#
                .replace('\n', "");
        assert!(facts(&healthy).session.is_some());
        assert_eq!(limits(&facts(&healthy)), [""; 0]);
        assert_eq!(limits(&facts("")), [""; 0]);
    }

    #[test]
    fn each_limit_is_found() {
        for (session, limit) in [
            (r#""stall_seconds":{"memtables":1,"level0":5}"#, "write_stalls"),
            (r#""durability":"sync","syncs":{"tables":{"count":10,"blocking":5,"seconds":10}}"#, "syncs"),
            (
                r#""lookups":20000,"storage_reads":9000,"memory_bytes":120000000,"memory_budget":134217728,"filters":true"#,
                "memory",
            ),
            (r#""lookups":20000,"searched_tables":200000,"filters":true"#, "sorted_runs"),
            (r#""lookups":20000,"searched_tables":40000,"filters":false"#, "filters"),
        ] {
            let log = format!("time statistics: {{\"seconds\":60,{session}}}\ntime closed\n");
            assert_eq!(limits(&facts(&log)), [limit], "{session}");
        }
    }

    #[test]
    fn memtables_grow_by_the_option_that_has_an_effect() {
        let change = |session: &str| {
            let log = format!("t statistics: {{\"seconds\":9,\"stall_seconds\":{{\"memtables\":5}},{session}}}");
            all(&facts(&log)).remove(0).change
        };
        let derived = r#""memory_budget":134217728,"write_buffer_size":16777216,"max_write_buffer_number":4"#;
        assert_eq!(change(derived), "memory_budget=256MiB");
        let set = r#""memory_budget":0,"write_buffer_size":4194304,"max_write_buffer_number":2"#;
        assert_eq!(change(set), "max_write_buffer_number=4");
    }

    #[test]
    fn the_store_itself_tells_of_space() {
        let mut store = facts("");
        store.pairs.ratios = vec![(Codec::Snappy, 0.9), (Codec::Zstd, 0.5)];
        assert_eq!(limits(&store), ["space"]);
        store.pairs.ratios = vec![(Codec::Snappy, 0.6), (Codec::Zstd, 0.5)];
        assert_eq!(limits(&store), [""; 0], "a sixth");
        store.statistics.levels[0].bytes = 300 << 20;
        store.statistics.levels[1].tables = 2000;
        assert_eq!(limits(&store), ["obsolete_entries"]);
        store.session = Session::last_in("t statistics: {\"seconds\":9,\"max_open_files\":990}");
        assert_eq!(limits(&store), ["obsolete_entries", "open_files"]);
        store.statistics.value_log.bytes = 100 << 20;
        assert_eq!(limits(&store), ["obsolete_entries", "value_log_garbage", "open_files"]);
    }

    #[test]
    fn large_values_need_amplification() {
        let log = |compacted: u64| {
            format!(
                "x statistics: {{\"seconds\":9,\"flushes\":{{\"bytes_written\":100000000}},\"compactions\":{{\"bytes_written\":{compacted}}}}}"
            )
        };
        let mut store = facts(&log(500_000_000));
        store.pairs.value_bytes = 1_000_000;
        assert_eq!(limits(&store), ["large_values"]);
        let mut store = facts(&log(200_000_000));
        store.pairs.value_bytes = 1_000_000;
        assert_eq!(limits(&store), [""; 0]);
    }

    #[test]
    fn the_newest_long_session_counts() {
        let log = "a statistics: {\"seconds\":5,\"stalls\":1}\nb statistics: {\"seconds\":0.2,\"stalls\":2}\nc statistics: no\n";
        assert_eq!(Session::last_in(log).unwrap().number("stalls"), 1.0);
        assert_eq!(Session::last_in("a closed\n"), None);
    }
}
