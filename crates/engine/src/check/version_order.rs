//! Checks the order of the versions of each key over all sorted runs. Of two versions of a key,
//! the newer one must be in the newer sorted run, because a point lookup returns the first version
//! that it finds.
use crate::version::{TableRef, Version, run::TableIter};
use std::collections::BTreeMap;
use terrace_format::{KeyOrder, SeqNo, key};
use terrace_storage::{
    Result,
    placement::{Cursor, Storage, TableReadOptions},
};

/// The maximum number of misplaced key versions that the check reports one by one. Of the other
/// misplaced versions it reports only the number.
const REPORTED_MAX: usize = 10;

/// Merges all entries of `version` and returns two kinds of problems. The first kind is a key that
/// has an older version in a newer sorted run. The second kind is a table with a sequence number
/// above `base`, the last sequence number that the manifest records. Returns an error if a table
/// cannot be read.
pub fn check(storage: &dyn Storage, order: &KeyOrder, version: &Version, base: SeqNo) -> Result<Vec<String>> {
    let mut walks: Vec<Walk<'_>> = Vec::new();
    for &(level, ref run) in version.runs() {
        let mut walk = Walk { storage, level, tables: run.iter(), at: None };
        walk.enter()?;
        walks.push(walk);
    }
    let (mut misplaced, mut above_base) = (0, BTreeMap::new());
    let (mut problems, mut newer) = (Vec::new(), None::<Seen>);
    loop {
        let valid = (0..walks.len()).filter(|&run| walks[run].at.is_some());
        let Some(run) = valid.min_by(|&a, &b| order.internal(walks[a].key(), walks[b].key())) else { break };
        let (entry, walk) = (key::apart(walks[run].key()), &walks[run]);
        if entry.seq > base {
            let newest = above_base.entry(walk.table()).or_insert(entry.seq);
            *newest = entry.seq.max(*newest);
        }
        if let Some(newer) =
            newer.as_ref().filter(|newer| newer.run > run && order.user(&newer.user, entry.user).is_eq())
        {
            misplaced += 1;
            if misplaced <= REPORTED_MAX {
                problems.push(format!(
                    "key '{}': sequence {} in level {} (table {}) is in a newer run than the newer sequence {} in level {}",
                    entry.user.escape_ascii(),
                    entry.seq,
                    walk.level,
                    walk.table(),
                    newer.seq,
                    newer.level
                ));
            }
        }
        newer = Some(Seen { user: entry.user.to_vec(), seq: entry.seq, level: walk.level, run });
        walks[run].step()?;
    }
    if misplaced > REPORTED_MAX {
        let (more, versions) = match misplaced - REPORTED_MAX {
            1 => (1, "version of a key is"),
            more => (more, "versions of keys are"),
        };
        problems.push(format!("{more} more {versions} in a newer run than a newer version"));
    }
    let above_base = above_base
        .iter()
        .map(|(table, newest)| format!("table {table} holds sequence {newest}, above the manifest's base {base}"));
    problems.extend(above_base);
    Ok(problems)
}

/// The previous entry of the merge.
struct Seen {
    user: Vec<u8>,
    seq: SeqNo,
    level: usize,
    run: usize,
}

/// A cursor over the entries of a sorted run, table by table.
struct Walk<'a> {
    storage: &'a dyn Storage,
    level: usize,
    tables: TableIter<'a>,
    /// The open table and a cursor at its current entry; `None` after the last entry of the run.
    at: Option<(&'a TableRef, Cursor)>,
}

impl Walk<'_> {
    fn key(&self) -> &[u8] {
        self.at.as_ref().map_or(&[], |(_, cursor)| cursor.key())
    }

    fn table(&self) -> u64 {
        self.at.as_ref().map_or(0, |(table, _)| table.meta.id.0)
    }

    fn step(&mut self) -> Result<()> {
        let Some((_, cursor)) = &mut self.at else { return Ok(()) };
        cursor.next()?;
        if cursor.valid() { Ok(()) } else { self.enter() }
    }

    /// Opens the next table and moves to its first entry.
    fn enter(&mut self) -> Result<()> {
        self.at = None;
        for table in self.tables.by_ref() {
            let mut cursor =
                self.storage.open_table(&table.meta)?.cursor(TableReadOptions { verify: true, fill_cache: false })?;
            cursor.seek_first()?;
            if cursor.valid() {
                self.at = Some((table, cursor));
                break;
            }
        }
        Ok(())
    }
}
