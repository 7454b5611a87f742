//! Prints parts of directory tables (SSTables stored as directories): the references in a META
//! file, and the file of a pair.
use super::{SHOWN_BYTES, user};
use crate::{bytes::quoted, json::text};
use anyhow::{Context, Result};
use serde_json::json;
use std::{
    io::{Read, Write},
    path::Path,
};
use terrace_format::pair::{PairName, Reference};
use terrace_storage::open_store_file;

/// Describes the reference that a META file stores instead of the value of a pair.
pub fn reference(internal: &[u8], stored: &[u8]) -> String {
    match Reference::decode(stored) {
        _ if stored.is_empty() => "a delete".into(),
        Ok(Reference::Here(value)) => quoted(value, SHOWN_BYTES),
        Ok(Reference::File(file)) => format!("{} bytes in {}", file.bytes, file.name(internal)),
        Err(error) => error.to_string(),
    }
}

/// Prints the pair in the file at `path`, whose name is `name`. Returns an error if the contents
/// do not match the name.
pub fn show(path: &Path, name: &PairName, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let mut file = Vec::new();
    open_store_file(path)?.read_to_end(&mut file)?;
    let (internal, at) = name.open(&file).context("its contents do not match its name")?;
    let (key, value) = (user(&internal), &file[at..]);
    if as_json {
        let object = json!({ "key": text(key), "sequence": name.seq.0, "checksum": format!("{:08x}", name.checksum),
            "value_bytes": value.len(), "value": text(value) });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "key        {}{}", quoted(key, SHOWN_BYTES), if name.cut { ", cut in the file's name" } else { "" })?;
    writeln!(out, "sequence   {}", name.seq)?;
    writeln!(out, "checksum   {:08x} (verified)", name.checksum)?;
    writeln!(out, "value      {} bytes: {}", value.len(), quoted(value, SHOWN_BYTES))?;
    Ok(())
}
