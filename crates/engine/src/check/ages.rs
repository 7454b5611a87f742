//! Whether newer versions of a key stand above older ones, in every run of every level: a lookup takes the first that it meets.
use crate::version::{TableRef, Version};
use std::collections::BTreeMap;
use terrace_format::{KeyOrder, SeqNo, key};
use terrace_storage::{
    Result,
    placement::{Cursor, ReadHow, Storage},
};

/// Problems of one kind that are told one by one; one that repeats for every key says nothing more.
const TOLD_MAX: usize = 10;

/// Walks all entries of `version` together. What is wrong: keys whose older version stands above a newer one, and tables that
/// hold more than `base` vouches for. An error if a table cannot be read.
pub fn check(storage: &dyn Storage, order: &KeyOrder, version: &Version, base: SeqNo) -> Result<Vec<String>> {
    let mut walks: Vec<Walk<'_>> = Vec::new();
    for &(level, ref run) in version.runs() {
        let mut walk = Walk { storage, level, tables: run.iter(), at: None };
        walk.enter()?;
        walks.push(walk);
    }
    let (mut buried, mut beyond) = (0, BTreeMap::new());
    let (mut problems, mut newer) = (Vec::new(), None::<Seen>);
    loop {
        let standing = (0..walks.len()).filter(|&run| walks[run].at.is_some());
        let Some(run) = standing.min_by(|&a, &b| order.internal(walks[a].key(), walks[b].key())) else { break };
        let (entry, walk) = (key::apart(walks[run].key()), &walks[run]);
        if entry.seq > base {
            let newest = beyond.entry(walk.table()).or_insert(entry.seq);
            *newest = entry.seq.max(*newest);
        }
        if let Some(newer) =
            newer.as_ref().filter(|newer| newer.run > run && order.user(&newer.user, entry.user).is_eq())
        {
            buried += 1;
            if buried <= TOLD_MAX {
                problems.push(format!(
                    "key '{}': sequence {} in level {} (table {}) stands above the newer {} in level {}",
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
    if buried > TOLD_MAX {
        problems.push(format!("{} more versions stand above newer ones", buried - TOLD_MAX));
    }
    let beyond = beyond.iter().map(|(table, newest)| {
        format!("table {table} holds sequence {newest}, where the manifest vouches for {base} at most")
    });
    problems.extend(beyond);
    Ok(problems)
}

/// The entry before.
struct Seen {
    user: Vec<u8>,
    seq: SeqNo,
    level: usize,
    run: usize,
}

/// A run being walked, table by table.
struct Walk<'a> {
    storage: &'a dyn Storage,
    level: usize,
    tables: crate::version::run::TableIter<'a>,
    /// The table, and the entry in it; `None` behind the last.
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

    /// To the first entry of the next table.
    fn enter(&mut self) -> Result<()> {
        self.at = None;
        for table in self.tables.by_ref() {
            let mut cursor =
                self.storage.open_table(&table.meta)?.cursor(ReadHow { verify: true, fill_cache: false })?;
            cursor.seek_first()?;
            if cursor.valid() {
                self.at = Some((table, cursor));
                break;
            }
        }
        Ok(())
    }
}
