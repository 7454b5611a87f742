//! Directory tables: what a reference in a meta file says, and one pair's file.
use super::{SHOWN_BYTES, user};
use crate::{bytes::quoted, json::text};
use anyhow::{Context, Result};
use serde_json::json;
use std::{
    io::{Read, Write},
    path::Path,
};
use terrace_format::pair::{PairName, Reference};
use terrace_storage::open_own;

/// What a meta file has in the place of a value: where that is, for people.
pub fn reference(internal: &[u8], stored: &[u8]) -> String {
    match Reference::decode(stored) {
        _ if stored.is_empty() => "a delete".into(),
        Ok(Reference::Here(value)) => quoted(value, SHOWN_BYTES),
        Ok(Reference::File(file)) => format!("{} bytes in {}", file.bytes, file.name(internal)),
        Err(error) => error.to_string(),
    }
}

/// Prints the pair in the file at `path`, whose name is `name`; an error if it is not what its name says.
pub fn show(path: &Path, name: &PairName, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let mut file = Vec::new();
    open_own(path)?.read_to_end(&mut file)?;
    let (internal, at) = name.open(&file).context("not the pair that its name stands for")?;
    let (key, value) = (user(&internal), &file[at..]);
    if as_json {
        let object = json!({ "key": text(key), "sequence": name.seq.0, "checksum": format!("{:08x}", name.checksum),
            "value_bytes": value.len(), "value": text(value) });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "key        {}{}", quoted(key, SHOWN_BYTES), if name.cut { ", cut in the file's name" } else { "" })?;
    writeln!(out, "sequence   {}", name.seq)?;
    writeln!(out, "checksum   {:08x}, which is right", name.checksum)?;
    writeln!(out, "value      {} bytes: {}", value.len(), quoted(value, SHOWN_BYTES))?;
    Ok(())
}
