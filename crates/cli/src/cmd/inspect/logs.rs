//! Prints the batches of a WAL or the edits of a manifest, one per line.
use super::{SHOWN_BYTES, edits};
use crate::{bytes::quoted, json::text, log_file::LogFile};
use anyhow::Result;
use serde_json::{Value, json};
use std::{io::Write, path::Path};
use terrace_format::{Batch, Edit, FamilyId, Op, log_record::Event};

/// Totals of a whole WAL.
#[derive(Default)]
pub struct Summary {
    /// Whether Terrace created the file (not LevelDB).
    pub ours: bool,
    /// File size in bytes.
    pub bytes: u64,
    /// Number of valid batches, without the empty batch at the start of Terrace's WALs.
    pub batches: u64,
    /// Number of operations in these batches.
    pub operations: u64,
    /// The first and the last sequence number of these operations, if there are any.
    pub sequences: Option<(u64, u64)>,
    /// Number of bytes that are not part of a valid record and batch.
    pub bad_bytes: u64,
    /// Whether the file ends within a record.
    pub torn: bool,
}

impl Summary {
    /// Reads a WAL from start to end and returns its totals.
    pub fn of(path: &Path) -> Result<Summary> {
        let mut log = LogFile::open(path)?;
        let mut summary = Summary { ours: log.ours, bytes: log.bytes, ..Summary::default() };
        loop {
            match log.next()? {
                Event::Bad { bytes, .. } => summary.bad_bytes += bytes,
                Event::End { torn, .. } => return Ok(Summary { torn, ..summary }),
                Event::Record { bytes, .. } => summary.add(bytes),
            }
        }
    }

    fn add(&mut self, record: Vec<u8>) {
        let bytes = record.len() as u64;
        let Ok(batch) = Batch::decode(record) else { return self.bad_bytes += bytes };
        if batch.is_empty() {
            return;
        }
        let (first, count) = (batch.sequence().0, u64::from(batch.len()));
        self.batches += 1;
        self.operations += count;
        let begin = self.sequences.map_or(first, |(begin, _)| begin);
        self.sequences = Some((begin, first + count - 1));
    }
}

/// Prints a WAL.
pub fn show_log(path: &Path, as_json: bool, entries: bool, out: &mut dyn Write) -> Result<()> {
    let describe = |bytes: Vec<u8>| match Batch::decode(bytes) {
        Ok(batch) => (batch_text(&batch, entries), batch_json(&batch, entries)),
        Err(error) => (error.to_string(), json!({ "error": error.to_string() })),
    };
    show(path, as_json, out, describe)
}

/// Prints a manifest.
pub fn show_manifest(path: &Path, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let describe = |bytes: Vec<u8>| match Edit::decode(&bytes) {
        Ok(edit) => (edits::lines(&edit).join("\n            "), edits::json(&edit)),
        Err(error) => (error.to_string(), json!({ "error": error.to_string() })),
    };
    show(path, as_json, out, describe)
}

fn show(path: &Path, as_json: bool, out: &mut dyn Write, describe: impl Fn(Vec<u8>) -> (String, Value)) -> Result<()> {
    let mut log = LogFile::open(path)?;
    if !as_json {
        let writer = if log.ours { "Terrace" } else { "LevelDB" };
        writeln!(out, "written by {writer}, {} bytes", log.bytes)?;
    }
    loop {
        let (offset, text, mut object, last) = match log.next()? {
            Event::Record { offset, bytes } => {
                let (text, object) = describe(bytes);
                (offset, text, object, false)
            }
            Event::Bad { offset, bytes, reason } => {
                (offset, format!("{bytes} bad bytes: {reason}"), json!({ "bad_bytes": bytes, "reason": reason }), false)
            }
            Event::End { offset, torn } => {
                let text = if torn { "end, followed by an incomplete record" } else { "end" };
                (offset, text.to_owned(), json!({ "end": true, "torn": torn }), true)
            }
        };
        if as_json {
            object["offset"] = offset.into();
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "{offset:>10}  {text}")?;
        }
        if last {
            return Ok(());
        }
    }
}

fn batch_text(batch: &Batch, entries: bool) -> String {
    let first = batch.sequence().0;
    let mut text = match batch.len() {
        0 => format!("empty batch (head of the WAL or durable mark), next sequence number {first}"),
        count => format!("{count} operations from sequence number {first}, {} bytes", batch.byte_len()),
    };
    for op in batch.ops().take(if entries { usize::MAX } else { 0 }) {
        text += "\n            ";
        let (family, op) = op.split();
        if family != FamilyId::DEFAULT {
            text += &format!("column family {family}: ");
        }
        text += &match op {
            Op::Put(key, value) => format!("put {} = {}", quoted(key, SHOWN_BYTES), quoted(value, SHOWN_BYTES)),
            Op::Delete(key) => format!("delete {}", quoted(key, SHOWN_BYTES)),
            Op::DeleteRange(from, to) => {
                format!("delete from {} to {}", quoted(from, SHOWN_BYTES), quoted(to, SHOWN_BYTES))
            }
            _ => unreachable!("`split` returns an operation without a family"),
        };
    }
    text
}

fn batch_json(batch: &Batch, entries: bool) -> Value {
    let mut object = json!({ "sequence": batch.sequence().0, "count": batch.len(), "bytes": batch.byte_len() });
    if entries {
        let operation = |op: Op<'_>| {
            let (family, op) = op.split();
            let mut operation = match op {
                Op::Put(key, value) => json!({ "key": text(key), "value": text(value) }),
                Op::Delete(key) => json!({ "key": text(key) }),
                Op::DeleteRange(from, to) => json!({ "from": text(from), "to": text(to) }),
                _ => unreachable!("`split` returns an operation without a family"),
            };
            if family != FamilyId::DEFAULT {
                operation["family"] = family.0.into();
            }
            operation
        };
        object["operations"] = batch.ops().map(operation).collect();
    }
    object
}
