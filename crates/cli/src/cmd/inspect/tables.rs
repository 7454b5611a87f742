//! One table file: where its blocks are, how they are stored, what it says of itself.
use super::{SHOWN_BYTES, internal, user};
use crate::{
    bytes::{escaped, quoted},
    sorted_table::SortedTable,
};
use anyhow::Result;
use serde_json::{Value, json};
use std::{io::Write, path::Path};
use terrace_format::key::{self, Kind};

/// Prints a table; with `entries`, each of its entries too.
pub fn show(path: &Path, as_json: bool, entries: bool, out: &mut dyn Write) -> Result<()> {
    let table = SortedTable::open(path)?;
    if as_json { show_json(&table, entries, out) } else { show_text(&table, entries, out) }
}

/// A codec's name by its id in a block's trailer.
fn codec_name(id: u8) -> &'static str {
    match id {
        0 => "none",
        1 => "snappy",
        2 => "zstd or zlib",
        4 => "deflate",
        0x24 => "lz4",
        _ => "unknown",
    }
}

fn show_text(table: &SortedTable, entries: bool, out: &mut dyn Write) -> Result<()> {
    let footer = table.footer;
    writeln!(out, "table      {} bytes", table.bytes)?;
    writeln!(out, "index      {} bytes at {}", footer.index.bytes, footer.index.offset)?;
    writeln!(out, "metaindex  {} bytes at {}", footer.metaindex.bytes, footer.metaindex.offset)?;
    for (name, handle) in table.meta_blocks()? {
        writeln!(out, "meta       {} bytes at {}: {name}", handle.bytes, handle.offset)?;
    }
    for (codec, stored) in table.codecs()? {
        writeln!(out, "data       {} blocks, {} bytes, codec {}", stored.blocks, stored.bytes, codec_name(codec))?;
    }
    match table.facts()? {
        Some(facts) => {
            let (oldest, newest) = facts.sequences;
            writeln!(out, "entries    {}, of these {} deletes", facts.entries, facts.deletes)?;
            writeln!(out, "bytes      {} of keys, {} of values", facts.key_bytes, facts.value_bytes)?;
            writeln!(out, "sequences  {oldest} to {newest}")?;
        }
        None => writeln!(out, "facts      none: written by LevelDB, or by its rules")?,
    }
    for handle in table.data_blocks()?.into_iter().take(if entries { usize::MAX } else { 0 }) {
        writeln!(out, "block      {} bytes at {}", handle.bytes, handle.offset)?;
        for (key, value) in table.entries(handle)? {
            writeln!(out, "  {} = {}", internal(&key), quoted(&value, SHOWN_BYTES))?;
        }
    }
    Ok(())
}

fn show_json(table: &SortedTable, entries: bool, out: &mut dyn Write) -> Result<()> {
    let meta: Value =
        table.meta_blocks()?.into_iter().map(|(name, handle)| json!({ "name": name, "bytes": handle.bytes })).collect();
    let data: Value = table
        .codecs()?
        .into_iter()
        .map(|(codec, stored)| {
            json!({ "codec": codec, "codec_name": codec_name(codec), "blocks": stored.blocks, "bytes": stored.bytes })
        })
        .collect();
    let facts = table.facts()?.map(|facts| {
        json!({ "entries": facts.entries, "deletes": facts.deletes, "key_bytes": facts.key_bytes,
            "value_bytes": facts.value_bytes, "sequences": [facts.sequences.0.0, facts.sequences.1.0] })
    });
    let mut object = json!({ "bytes": table.bytes, "meta": meta, "data": data, "facts": facts });
    if entries {
        let mut all = Vec::new();
        for handle in table.data_blocks()? {
            all.extend(table.entries(handle)?.iter().map(|(key, value)| entry_json(key, value)));
        }
        object["entries"] = all.into();
    }
    writeln!(out, "{object}")?;
    Ok(())
}

fn entry_json(key: &[u8], value: &[u8]) -> Value {
    let parsed = key::parse(key).ok();
    json!({
        "key": escaped(user(key)),
        "sequence": parsed.map(|parsed| parsed.seq.0),
        "delete": parsed.map(|parsed| parsed.kind == Kind::Delete),
        "value": escaped(value),
    })
}
