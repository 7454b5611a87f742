//! Prints an SSTable: its blocks, their codecs, and its properties.
use super::{SHOWN_BYTES, internal, pairs, user};
use crate::{bytes::quoted, json::text, sorted_table::SortedTable};
use anyhow::Result;
use serde_json::{Value, json};
use std::{io::Write, path::Path};
use terrace_format::{
    key::{self, Kind},
    pair::{self, PairProperties},
};

/// Prints an SSTable. With `entries`, also prints each entry.
pub fn show(path: &Path, as_json: bool, entries: bool, out: &mut dyn Write) -> Result<()> {
    show_table(&SortedTable::open(path)?, as_json, entries, path.ends_with(pair::META), out)
}

/// Prints an open SSTable. `refers` says whether its values are references to files.
pub fn show_table(table: &SortedTable, as_json: bool, entries: bool, refers: bool, out: &mut dyn Write) -> Result<()> {
    if !as_json {
        return show_text(table, entries, refers, out);
    }
    writeln!(out, "{}", json(table, entries, refers)?)?;
    Ok(())
}

/// Returns the name of a codec id.
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

/// Prints an SSTable as text. `refers` says whether its values are references to files.
fn show_text(table: &SortedTable, entries: bool, refers: bool, out: &mut dyn Write) -> Result<()> {
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
    match table.properties()? {
        Some(facts) => {
            let (oldest, newest) = facts.sequences;
            writeln!(out, "entries    {}, of these {} deletes", facts.entries, facts.deletes)?;
            writeln!(out, "bytes      {} of keys, {} of values", facts.key_bytes, facts.value_bytes)?;
            writeln!(out, "sequences  {oldest} to {newest}")?;
        }
        None => writeln!(out, "properties none: written by LevelDB, or in its format")?,
    }
    if let Some(PairProperties { files, file_bytes, value_bytes }) = table.pair_properties()? {
        writeln!(out, "pairs      {files} in files of {file_bytes} bytes; {value_bytes} bytes of values in all")?;
    }
    for handle in table.data_blocks()?.into_iter().take(if entries { usize::MAX } else { 0 }) {
        writeln!(out, "block      {} bytes at {}", handle.bytes, handle.offset)?;
        for (key, value) in table.entries(handle)? {
            let shown = if refers { pairs::reference(&key, &value) } else { quoted(&value, SHOWN_BYTES) };
            writeln!(out, "  {} = {shown}", internal(&key))?;
        }
    }
    Ok(())
}

/// Returns the JSON form of an SSTable. `refers` says whether its values are references to files.
pub fn json(table: &SortedTable, entries: bool, refers: bool) -> Result<Value> {
    let meta: Value =
        table.meta_blocks()?.into_iter().map(|(name, handle)| json!({ "name": name, "bytes": handle.bytes })).collect();
    let data: Value = table
        .codecs()?
        .into_iter()
        .map(|(codec, stored)| {
            json!({ "codec": codec, "codec_name": codec_name(codec), "blocks": stored.blocks, "bytes": stored.bytes })
        })
        .collect();
    let facts = table.properties()?.map(|facts| {
        json!({ "entries": facts.entries, "deletes": facts.deletes, "key_bytes": facts.key_bytes,
            "value_bytes": facts.value_bytes, "sequences": [facts.sequences.0.0, facts.sequences.1.0] })
    });
    let mut object = json!({ "bytes": table.bytes, "meta": meta, "data": data, "facts": facts });
    if let Some(PairProperties { files, file_bytes, value_bytes }) = table.pair_properties()? {
        object["pairs"] = json!({ "files": files, "file_bytes": file_bytes, "value_bytes": value_bytes });
    }
    if entries {
        let mut all = Vec::new();
        for handle in table.data_blocks()? {
            all.extend(table.entries(handle)?.iter().map(|(key, value)| entry_json(key, value, refers)));
        }
        object["entries"] = all.into();
    }
    Ok(object)
}

fn entry_json(key: &[u8], value: &[u8], refers: bool) -> Value {
    let parsed = key::parse(key).ok();
    json!({
        "key": text(user(key)),
        "sequence": parsed.map(|parsed| parsed.seq.0),
        "delete": parsed.map(|parsed| parsed.kind == Kind::Delete),
        if refers { "reference" } else { "value" }: if refers { pairs::reference(key, value).into() } else { text(value) },
    })
}
