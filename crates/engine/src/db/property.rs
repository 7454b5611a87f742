//! The property strings that [`Db::property`] returns: LevelDB's properties, in LevelDB's format,
//! for tools that know them, and one property of Terrace. [`Db::statistics`] reports more numbers,
//! with types.
//!
//! Source: LevelDB's `DBImpl::GetProperty`, `Version::DebugString`, `EscapeString`.
use super::Db;
use crate::version::{TableRef, Version};
use std::fmt::Write;
use terrace_format::{LEVELS, key};

impl Db {
    /// Returns the property with the name `name`, or `None` for an unknown name. All names but the
    /// last one are LevelDB's. The numbers include all column families.
    ///
    /// | name | value |
    /// |---|---|
    /// | `leveldb.num-files-at-levelN` | number of SSTables in level N, from 0 to 6 |
    /// | `leveldb.stats` | a text table: sizes of levels and the cost of compactions into them |
    /// | `leveldb.sstables` | every SSTable: number, size, first and last internal key |
    /// | `leveldb.approximate-memory-usage` | bytes of memtables, cached blocks and open SSTables |
    /// | `terrace.durability` | text lines: durable watermark, files kept for durability, syncs |
    ///
    /// ```
    /// # let db = terrace::Db::open_in_memory(terrace::Options::default()).unwrap();
    /// assert_eq!(db.property("leveldb.num-files-at-level0").as_deref(), Some("0"));
    /// assert_eq!(db.property("leveldb.nonsense"), None);
    /// ```
    pub fn property(&self, name: &str) -> Option<String> {
        self.shared().check_process().ok()?;
        if name == "terrace.durability" {
            return Some(self.durability());
        }
        match name.strip_prefix("leveldb.")? {
            "stats" => Some(self.compaction_table()),
            "sstables" => Some(tables(&self.shared().view.load().version)),
            "approximate-memory-usage" => Some(self.statistics().memory.sum().to_string()),
            other => {
                let digits = other.strip_prefix("num-files-at-level")?;
                let level = (0..LEVELS).find(|level| level.to_string() == digits)?;
                Some(self.statistics().levels[level].tables.to_string())
            }
        }
    }

    fn durability(&self) -> String {
        let now = self.statistics();
        let (logs, tables) = (mib(now.retained_wal_bytes), mib(now.shadow_bytes));
        let (durability_mode, durable, last) = (now.durability, now.durable_sequence, now.last_sequence);
        let mut out = format!("durability {durability_mode}: {durable} of {last} changes are durable\n");
        let (edits, noun) = (now.pending_edits, if now.pending_edits == 1 { "edit" } else { "edits" });
        out += &format!("kept until their replacements are durable: {logs:.1} MB of WALs, ");
        out += &format!("{tables:.1} MB of tables, for {edits} pending {noun}\n");
        for (kind, syncs) in &now.syncs {
            let seconds = syncs.time.as_secs_f64();
            out += &format!("syncs of {kind}: {}, {} blocking, {seconds:.3} s\n", syncs.count, syncs.blocking);
        }
        out
    }

    fn compaction_table(&self) -> String {
        let mut out = "                               Compactions\n".to_string();
        out += "Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n";
        out += "--------------------------------------------------\n";
        for (level, held) in self.statistics().levels.iter().enumerate() {
            let did = held.compactions;
            if held.tables > 0 || did.count > 0 {
                let (size, read, written) = (mib(held.bytes), mib(did.bytes_read), mib(did.bytes_written));
                let seconds = did.time.as_secs_f64();
                let line = format!("{level:3} {:8} {size:8.0} {seconds:9.0} {read:8.0} {written:9.0}", held.tables);
                writeln!(out, "{line}").expect("writing to a string does not fail");
            }
        }
        out
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn tables(version: &Version) -> String {
    let mut out = String::new();
    let others = version.families().values().map(|family| (format!(" of {}", family.name), &*family.version));
    for (of, tree) in std::iter::once((String::new(), version)).chain(others) {
        for (number, level) in tree.levels.iter().enumerate() {
            writeln!(out, "--- level {number}{of} ---").expect("writing to a string does not fail");
            for table in level.tables() {
                writeln!(out, "{}", line(table)).expect("writing to a string does not fail");
            }
        }
    }
    out
}

fn line(table: &TableRef) -> String {
    let meta = &table.meta;
    format!(" {}:{}[{} .. {}]", meta.id.0, meta.bytes, internal(&meta.smallest), internal(&meta.largest))
}

/// Formats an internal key (user key, sequence number and kind) as LevelDB does.
fn internal(bytes: &[u8]) -> String {
    let parsed = key::apart(bytes);
    let mut user = String::new();
    for &byte in parsed.user {
        match byte {
            b' '..=b'~' => user.push(char::from(byte)),
            _ => write!(user, "\\x{byte:02x}").expect("writing to a string does not fail"),
        }
    }
    format!("'{user}' @ {} : {}", parsed.seq, parsed.kind as u8)
}
