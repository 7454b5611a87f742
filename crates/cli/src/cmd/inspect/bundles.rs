//! Prints a bundle (one file with all SSTables of a compaction): its SSTables, where they are in
//! the file, and which of them were removed.
use super::tables;
use crate::{
    sorted_table::SortedTable,
    table::{self, size},
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{io::Write, path::Path};
use terrace_format::bundle::{self, FOOTER_BYTES, Member};
use terrace_storage::open_store_file;
use terrace_storage::read_exact_at;

/// Prints a bundle. With `entries`, also prints each entry of each SSTable.
pub fn show(path: &Path, as_json: bool, entries: bool, out: &mut dyn Write) -> Result<()> {
    let (bytes, members) = read(path)?;
    let tables: Vec<(Member, Option<SortedTable>)> =
        members.into_iter().map(|member| Ok((member, open(path, &member)?))).collect::<Result<_>>()?;
    if as_json {
        let tables = tables.iter().map(|(member, table)| member_json(member, table.as_ref(), entries));
        let tables = tables.collect::<Result<Value>>()?;
        writeln!(out, "{}", json!({ "bytes": bytes, "tables": tables }))?;
        return Ok(());
    }
    writeln!(out, "bundle     {} tables, {bytes} bytes\n", tables.len())?;
    let row = |(member, table): &(Member, Option<SortedTable>)| {
        let state = if table.is_some() { "there" } else { "gone, its space given back" };
        vec![member.id.to_string(), member.offset.to_string(), size(member.bytes), state.to_owned()]
    };
    table::write(out, &["table", "offset", "size", "state"], &tables.iter().map(row).collect::<Vec<_>>())?;
    for (member, table) in tables.iter().filter(|_| entries) {
        if let Some(table) = table {
            writeln!(out, "\n{}", member.id)?;
            tables::show_table(table, false, true, false, out)?;
        }
    }
    Ok(())
}

/// Reads the size and the directory of the bundle at `path`.
fn read(path: &Path) -> Result<(u64, Vec<Member>)> {
    let file = open_store_file(path)?;
    let bytes = file.metadata()?.len();
    let Some(at) = bytes.checked_sub(FOOTER_BYTES as u64) else { bail!("{bytes} bytes: too short for a bundle") };
    let mut footer = [0; FOOTER_BYTES];
    read_exact_at(&file, &mut footer, at)?;
    let offset = bundle::directory_offset(&footer, bytes)?;
    let mut end = vec![0; (bytes - offset) as usize];
    read_exact_at(&file, &mut end, offset)?;
    Ok((bytes, bundle::decode(&end, offset)?))
}

/// Opens an SSTable of the bundle. Returns `None` if a hole was punched over the SSTable: its last
/// bytes are then zeros.
fn open(path: &Path, member: &Member) -> Result<Option<SortedTable>> {
    let mut last = [0; 8];
    read_exact_at(&open_store_file(path)?, &mut last, (member.offset + member.bytes).saturating_sub(8))?;
    if last == [0; 8] {
        return Ok(None);
    }
    let table = SortedTable::open_within(path, member.offset, member.bytes);
    table.map(Some).with_context(|| format!("table {} at byte {}", member.id, member.offset))
}

fn member_json(member: &Member, table: Option<&SortedTable>, entries: bool) -> Result<Value> {
    let contents = table.map(|table| tables::json(table, entries, false)).transpose()?;
    Ok(json!({ "number": member.id.0, "offset": member.offset, "bytes": member.bytes, "table": contents }))
}
