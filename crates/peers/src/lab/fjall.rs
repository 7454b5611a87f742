//! The key-value store Fjall as a benchmark target. A store is one leveled keyspace of a database.
use super::{bytes, compiled};
use ::fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode,
    compaction::Leveled,
    config::{BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry},
};
use anyhow::{Context, bail};
use std::{ops::RangeInclusive, path::Path, sync::Arc};
use terrace_lab::target::{Change, Engine, EngineBuild, Result, Settings, Target};

/// Two counts of level 0 files: Fjall slows writes down at the first, and stops them at the
/// second. No option changes them.
const L0_SLOW_AND_STOP: (u32, u32) = (20, 30);
/// Ranges of option values that Fjall accepts, in bytes.
const BLOCK: RangeInclusive<u64> = 1 << 10..=1 << 20;
const OPEN_FILES: RangeInclusive<u32> = 10..=u32::MAX;
const L0_START: RangeInclusive<u32> = 1..=u8::MAX as u32;

/// Fjall as an engine of the lab. Options that the settings of a run do not determine have Fjall's
/// defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fjall;

impl Engine for Fjall {
    fn name(&self) -> String {
        "fjall".into()
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        Ok(compiled::build(&["fjall", "lsm-tree"]))
    }

    fn departures(&self, settings: &Settings) -> Vec<String> {
        let (start, slow, stop) = settings.l0_triggers;
        let level_base = settings.max_file_size.saturating_mul(l0_start(settings).into());
        let mut all = vec![
            "Fjall has up to four immutable memtables, not one".to_owned(),
            "Fjall uses one worker thread per processor, at most four, its default".to_owned(),
            "Fjall keeps WALs of 64 MB longer than their memtables, at most 512 MiB in total, its default".to_owned(),
            "`compact` makes files of 64 MB, whatever the file size".to_owned(),
        ];
        if settings.level_base != level_base {
            let requested = bytes(settings.level_base);
            all.push(format!("level base {requested}: Fjall's is file size × level 0 trigger, {}", bytes(level_base)));
        }
        if (slow, stop) != L0_SLOW_AND_STOP || start != l0_start(settings) {
            let (fixed_slow, fixed_stop) = L0_SLOW_AND_STOP;
            let (text, start) = (settings.l0_triggers, l0_start(settings));
            all.push(format!("level 0 triggers {text:?}: Fjall has ({start}, {fixed_slow}, {fixed_stop})"));
        }
        if !settings.verify_checksums {
            all.push("Fjall always verifies the checksum of a block read from a file".to_owned());
        }
        if !BLOCK.contains(&settings.block_size) {
            let (requested, used) = (bytes(settings.block_size), bytes(clip(settings.block_size, &BLOCK)));
            all.push(format!("block size {requested}: Fjall's is {used}"));
        }
        if !OPEN_FILES.contains(&settings.max_open_files) {
            all.push(format!("open files {}: Fjall's minimum is {}", settings.max_open_files, OPEN_FILES.start()));
        }
        all
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        let options = options(settings)?;
        let open_files = usize::try_from(clip(settings.max_open_files, &OPEN_FILES))?;
        let database = Database::builder(dir)
            .cache_size(settings.cache_size)
            .max_cached_files(Some(open_files))
            .journal_compression(CompressionType::None) // no other engine compresses its WAL
            .open()
            .with_context(|| format!("open Fjall in {}", dir.display()))?;
        let pairs = database.keyspace("pairs", || options)?;
        Ok(Box::new(FjallTarget { pairs, database }))
    }
}

fn clip<T: Ord + Copy>(requested: T, range: &RangeInclusive<T>) -> T {
    requested.clamp(*range.start(), *range.end())
}

fn l0_start(settings: &Settings) -> u32 {
    clip(settings.l0_triggers.0, &L0_START)
}

fn options(settings: &Settings) -> Result<KeyspaceCreateOptions> {
    let compression = match settings.compression.as_str() {
        "none" => CompressionPolicy::disabled(),
        "lz4" => CompressionPolicy::all(CompressionType::Lz4),
        other => bail!("Fjall {other}: the supported compressions are none and lz4"),
    };
    let filter = match settings.bloom_bits {
        0 => FilterPolicy::disabled(),
        bits => FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits as f32))),
    };
    let leveled = Leveled::default()
        .with_l0_threshold(u8::try_from(l0_start(settings))?)
        .with_table_target_size(settings.max_file_size);
    Ok(KeyspaceCreateOptions::default()
        .max_memtable_size(settings.write_buffer_size)
        .data_block_size_policy(BlockSizePolicy::all(u32::try_from(clip(settings.block_size, &BLOCK))?))
        .data_block_compression_policy(compression)
        .filter_policy(filter)
        .compaction_strategy(Arc::new(leveled)))
}

struct FjallTarget {
    pairs: Keyspace,
    database: Database,
}

impl Target for FjallTarget {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        match *changes {
            [Change::Put(key, value)] if !sync => self.pairs.insert(key, value)?,
            [Change::Delete(key)] if !sync => self.pairs.remove(key)?,
            _ => {
                let mut batch = self.database.batch();
                if sync {
                    batch = batch.durability(Some(PersistMode::SyncData));
                }
                for change in changes {
                    match *change {
                        Change::Put(key, value) => batch.insert(&self.pairs, key, value),
                        Change::Delete(key) => batch.remove(&self.pairs, key),
                    }
                }
                batch.commit()?;
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.pairs.get(key)?;
        Ok(found.map(|found| value.extend_from_slice(&found)).is_some())
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut pairs = match (from, reverse) {
            (None, _) => self.pairs.iter(),
            (Some(from), false) => self.pairs.range(from..),
            (Some(from), true) => self.pairs.range(..=from),
        };
        while let Some(pair) = if reverse { pairs.next_back() } else { pairs.next() } {
            let (key, value) = pair.into_inner()?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.pairs.rotate_memtable_and_wait()?;
        Ok(self.pairs.major_compact()?)
    }

    /// Closes the store. Fjall's own close reports no errors, so this call returns an error if
    /// background work has failed before.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.persist(PersistMode::Buffer)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_are_reported() {
        let text = Fjall.departures(&Settings::default()).join("\n");
        assert!(text.contains("10 MiB") && text.contains("8 MiB") && text.contains("(4, 20, 30)"), "{text}");
        let odd = Settings { block_size: 512, max_open_files: 3, l0_triggers: (300, 20, 30), ..Settings::default() };
        let text = Fjall.departures(&odd).join("\n");
        assert!(text.contains("512 B") && text.contains("open files 3") && text.contains("(255, 20, 30)"), "{text}");
        options(&odd).expect("clipped, not refused");
    }

    #[test]
    fn an_unsupported_compression_is_refused() {
        let settings = Settings { compression: "zstd".into(), ..Settings::default() };
        assert!(options(&settings).err().expect("refused").to_string().contains("zstd"));
    }
}
