//! The key-value store redb as a benchmark target. A store is one table of a database, and the
//! database is one file.
use super::{bytes, compiled};
use ::redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition, TableError};
use anyhow::{Context, bail};
use std::{
    fs,
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard},
};
use terrace_lab::target::{Change, Engine, EngineBuild, Result, Settings, Target};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");
/// Page size of redb in bytes. No option changes it.
const PAGE_BYTES: u64 = 4 << 10;

/// redb, a copy-on-write B-tree, as an engine of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redb;

impl Engine for Redb {
    fn name(&self) -> String {
        "redb".into()
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        Ok(compiled::build(&["redb"]))
    }

    fn departures(&self, settings: &Settings) -> Vec<String> {
        let mut all = vec![
            "redb is a B-tree in one file: it has no memtables, levels, file sizes or filters".to_owned(),
            format!("cache {}: pages read and written, in place of a cache and two memtables", bytes(cache(settings))),
            "redb has no WAL: unsynced writes stay in its cache until that is full or until the next sync".to_owned(),
            "unsynced writes are lost if redb's process ends without closing, not only at a power cut".to_owned(),
            "redb begins a transaction for every read and every write, and writes one at a time".to_owned(),
        ];
        if settings.block_size != PAGE_BYTES {
            all.push(format!("block size {}: redb's page size is {}", bytes(settings.block_size), bytes(PAGE_BYTES)));
        }
        if settings.verify_checksums {
            all.push("redb verifies checksums only when it repairs a file, never when it reads".to_owned());
        }
        all
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        if settings.compression != "none" {
            bail!("redb {}: redb does not compress", settings.compression);
        }
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        let cache = usize::try_from(cache(settings)).context("exceeds the address space")?;
        let file = dir.join("redb");
        let database = Database::builder().set_cache_size(cache).create(&file);
        let database = database.with_context(|| format!("open {}", file.display()))?;
        if let Err(TableError::TableDoesNotExist(_)) = database.begin_read()?.open_table(PAIRS) {
            let transaction = database.begin_write()?;
            transaction.open_table(PAIRS)?;
            transaction.commit()?;
        }
        Ok(Box::new(RedbTarget { database: RwLock::new(database) }))
    }
}

/// Returns the size of redb's cache in bytes. redb uses up to half of its cache for changed pages,
/// which correspond to the memtables of other engines. The size is therefore the sum of the cache
/// size and the size of two memtables.
fn cache(settings: &Settings) -> u64 {
    settings.cache_size.saturating_add(settings.write_buffer_size.saturating_mul(2))
}

struct RedbTarget {
    /// The open database. Reads and writes lock it shared, and a compaction locks it exclusively.
    database: RwLock<Database>,
}

impl RedbTarget {
    fn database(&self) -> RwLockReadGuard<'_, Database> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn pairs(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        Ok(self.database().begin_read()?.open_table(PAIRS)?)
    }
}

impl Target for RedbTarget {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        let mut transaction = self.database().begin_write()?;
        transaction.set_durability(if sync { Durability::Immediate } else { Durability::None })?;
        let mut pairs = transaction.open_table(PAIRS)?;
        for change in changes {
            match *change {
                Change::Put(key, value) => drop(pairs.insert(key, value)?),
                Change::Delete(key) => drop(pairs.remove(key)?),
            }
        }
        drop(pairs);
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.pairs()?.get(key)?;
        Ok(found.map(|found| value.extend_from_slice(found.value())).is_some())
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let pairs = self.pairs()?;
        let mut pairs = match (from, reverse) {
            (None, _) => pairs.range::<&[u8]>(..)?,
            (Some(from), false) => pairs.range(from..)?,
            (Some(from), true) => pairs.range(..=from)?,
        };
        while let Some(pair) = if reverse { pairs.next_back() } else { pairs.next() } {
            let (key, value) = pair?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        database.compact()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_are_reported() {
        let text = Redb.departures(&Settings::default()).join("\n");
        assert!(text.contains("cache 16 MiB") && !text.contains("block size"), "{text}");
        let text = Redb.departures(&Settings { block_size: 8 << 10, verify_checksums: true, ..Settings::default() });
        let text = text.join("\n");
        assert!(text.contains("block size 8 KiB") && text.contains("repairs"), "{text}");
    }

    #[test]
    fn compression_is_refused() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let settings = Settings { compression: "lz4".into(), ..Settings::default() };
        let refused = Redb.open(directory.path(), &settings).err().expect("refused");
        assert!(refused.to_string().contains("lz4"), "{refused}");
    }
}
