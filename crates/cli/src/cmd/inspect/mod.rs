//! `inspect`: prints a store, or one of its files, in its stored form. The command takes no lock
//! and changes nothing. Therefore it also works on a store that does not open. If another process
//! has the store open, the command prints the state of one moment.
mod bundles;
mod edits;
mod logs;
mod pairs;
mod picture;
mod store;
mod tables;
mod unnamed;

pub use logs::show_log;

use crate::{bytes::quoted, directory::refuse_foreign};
use anyhow::{Context, Result, bail};
use std::{fs, io::Write, path::PathBuf};
use terrace_format::{
    FileName, FormatFile,
    key::{self, Kind},
    names::decode_current,
    pair::{self, PairName},
};
use terrace_storage::read_small_file;
use terrace_storage::{StorageConfig, backends::raw, placement::OpenMode};

/// Number of bytes of a key or value that are printed before it is cut.
const SHOWN_BYTES: usize = 40;

/// Prints a store (levels, manifest history, WALs, format file) or decodes one of its files.
///
/// Files of directory tables: an SSTable's folder (L0/NNNNNN), its META, or the file of a pair
/// (KEY.SEQUENCE.CHECKSUM). Other files: NNNNNN.ldb, NNNNNN.sst, NNNNNN.bundle, NNNNNN.log,
/// NNNNNN.vlog, NNNNNN.slog, NNNNNN.vals, MANIFEST-NNNNNN, CURRENT, TERRACE, and files whose
/// existence has a meaning (UNSYNCED, RESERVE, LOCK, LOG, NNNNNN.dbtmp). The command opens and
/// locks no store, so it also works on a damaged one.
#[derive(clap::Args)]
pub struct Inspect {
    /// Directory of a store, or one of its files.
    #[arg(value_name = "DB|FILE")]
    path: PathBuf,
    /// Print JSON: one object for a store, an SSTable, a bundle or a small file; one object per
    /// record for a WAL or a manifest.
    #[arg(long)]
    json: bool,
    /// For an SSTable, a bundle or a WAL: print every entry.
    #[arg(long)]
    entries: bool,
}

impl Inspect {
    /// Prints the object at `path`.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let about = fs::metadata(&self.path).with_context(|| self.path.display().to_string())?;
        if about.is_dir() {
            let meta = self.path.join(pair::META);
            if meta.is_file() {
                return tables::show(&meta, self.json, self.entries, out).with_context(|| meta.display().to_string());
            }
            refuse_foreign(&self.path)?;
            return store::show(&self.path, self.json, out);
        }
        if raw::open(&self.path, OpenMode::ReadOnly, &StorageConfig::default())
            .is_ok_and(|device| device.superblock().is_ok())
        {
            bail!(
                "a device without a file system; `terrace raw export` makes a directory of it, which can be inspected"
            );
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.show_file(&name, out).with_context(|| self.path.display().to_string())
    }

    fn show_file(&self, name: &str, out: &mut dyn Write) -> Result<()> {
        // If `path` is a link, the name of its target selects the decoder.
        let path = &self.path.canonicalize()?;
        if let Some(pair) = PairName::parse(name) {
            return pairs::show(path, &pair, self.json, out);
        }
        match FileName::parse(name) {
            None if name == pair::META => tables::show(path, self.json, self.entries, out),
            Some(FileName::Table(_)) => tables::show(path, self.json, self.entries, out),
            Some(FileName::Bundle(_)) => bundles::show(path, self.json, self.entries, out),
            Some(FileName::Log(_) | FileName::ValueLog(_) | FileName::WalSidecar(_) | FileName::Values(_)) => {
                logs::show_log(path, self.json, self.entries, out)
            }
            Some(FileName::Manifest(_)) => logs::show_manifest(path, self.json, out),
            Some(FileName::Current) => {
                let manifest = FileName::Manifest(decode_current(&read_small_file(path)?)?).to_string();
                self.say(
                    out,
                    &format!("the current manifest is {manifest}"),
                    serde_json::json!({ "manifest": manifest }),
                )
            }
            Some(FileName::FormatFile) => {
                let marker = FormatFile::decode(str::from_utf8(&read_small_file(path)?)?)?;
                self.say(out, marker.encode().trim_end(), store::marker_json(&marker))
            }
            Some(other) => self.show_sign(other, out),
            None => {
                bail!(
                    "not a file name of a store; known are NNNNNN.ldb .sst .bundle .log .dbtmp, KEY.SEQUENCE.CHECKSUM, META, \
                     MANIFEST-NNNNNN, CURRENT, TERRACE, UNSYNCED, RESERVE, LOCK, LOG"
                )
            }
        }
    }

    /// Prints the meaning of a file whose contents the command does not decode, such as `UNSYNCED`.
    fn show_sign(&self, name: FileName, out: &mut dyn Write) -> Result<()> {
        let bytes = fs::metadata(&self.path)?.len();
        let meaning = match name {
            FileName::Unsynced => {
                "last written with durability=none: the next open with durability syncs every SSTable first"
            }
            FileName::Reserve => "reserved disk space, released when the disk is full",
            FileName::Lock => "locked while the store is open; its existence means nothing",
            FileName::InfoLog => "LevelDB's log messages, plain text",
            FileName::Temporary(_) => {
                "a temporary version of CURRENT or TERRACE, left by a process that ended before the rename"
            }
            _ => bail!("files of this name cannot be decoded"),
        };
        self.say(out, &format!("{bytes} bytes: {meaning}"), serde_json::json!({ "bytes": bytes, "meaning": meaning }))
    }

    fn say(&self, out: &mut dyn Write, text: &str, json: serde_json::Value) -> Result<()> {
        if self.json {
            writeln!(out, "{json}")?;
        } else {
            writeln!(out, "{text}")?;
        }
        Ok(())
    }
}

/// Returns the user key of an internal key, or all bytes if it is malformed.
fn user(internal: &[u8]) -> &[u8] {
    key::parse(internal).map_or(internal, |parsed| parsed.user)
}

/// Formats an internal key: user key, sequence number, and `-` for a tombstone.
fn internal(bytes: &[u8]) -> String {
    match key::parse(bytes) {
        Ok(parsed) => {
            let sign = if parsed.kind == Kind::Delete { "-" } else { "" };
            format!("{}@{}{sign}", quoted(parsed.user, SHOWN_BYTES), parsed.seq)
        }
        Err(_) => format!("not an internal key: {}", quoted(bytes, SHOWN_BYTES)),
    }
}
