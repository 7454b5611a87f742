//! The file names of a store, and the contents of `CURRENT`.
//!
//! Numbers have at least six digits. A name is recognized only in the form that the writer uses:
//! `5.ldb` and `0000005.log` are foreign files. Source: LevelDB's `db/filename.h`; spec:
//! docs/format/index.md, manifest.md.
use crate::{Corrupt, LogId, SegmentId, TableId};
use std::fmt;

/// A file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileName {
    /// `000005.ldb`, an SSTable. The name `000005.sst`, which LevelDB before 1.14 used, is
    /// recognized too.
    Table(TableId),
    /// `000005.bundle`: several SSTables in one file. Its number is that of the first of them.
    Bundle(TableId),
    /// `000005.log`: a WAL.
    Log(LogId),
    /// `000005.vlog`: a WAL that is also a value-log segment.
    ValueLog(LogId),
    /// `000005.slog`: the sidecar of a WAL that is also a value-log segment. The sidecar has the
    /// batches without separated values.
    WalSidecar(LogId),
    /// `000005.vals`: a segment of values relocated by garbage collection.
    Values(SegmentId),
    /// `MANIFEST-000005`.
    Manifest(LogId),
    /// `CURRENT`: the name of the manifest.
    Current,
    /// `LOCK`: locked while the store is open.
    Lock,
    /// `LOG` and its predecessor `LOG.old`: LevelDB's messages.
    InfoLog,
    /// `TERRACE`: the [format file](crate::format_file).
    FormatFile,
    /// `RESERVE`: disk space that is allocated in advance and released when the disk is full.
    Reserve,
    /// `UNSYNCED`: the store was written in durability mode `none`, so recent writes may not
    /// survive a power cut.
    Unsynced,
    /// `000005.dbtmp`: a file that will be renamed to `CURRENT` or `TERRACE`.
    Temporary(u64),
}

impl FileName {
    /// Parses a file name. Returns `None` for foreign files.
    pub fn parse(name: &str) -> Option<FileName> {
        match name {
            "CURRENT" => return Some(FileName::Current),
            "LOCK" => return Some(FileName::Lock),
            "LOG" | "LOG.old" => return Some(FileName::InfoLog),
            "TERRACE" => return Some(FileName::FormatFile),
            "RESERVE" => return Some(FileName::Reserve),
            "UNSYNCED" => return Some(FileName::Unsynced),
            _ => {}
        }
        if let Some(digits) = name.strip_prefix("MANIFEST-") {
            return number(digits).map(|number| FileName::Manifest(LogId(number)));
        }
        let (digits, suffix) = name.split_once('.')?;
        let number = number(digits)?;
        match suffix {
            "ldb" | "sst" => Some(FileName::Table(TableId(number))),
            "bundle" => Some(FileName::Bundle(TableId(number))),
            "log" => Some(FileName::Log(LogId(number))),
            "vlog" => Some(FileName::ValueLog(LogId(number))),
            "slog" => Some(FileName::WalSidecar(LogId(number))),
            "vals" => Some(FileName::Values(SegmentId(number))),
            "dbtmp" => Some(FileName::Temporary(number)),
            _ => None,
        }
    }

    /// Returns the second name (`.sst`) under which SSTable `id` may exist.
    pub fn table_alternative(id: TableId) -> String {
        format!("{id}.sst")
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Table(id) => write!(f, "{id}.ldb"),
            FileName::Bundle(id) => write!(f, "{id}.bundle"),
            FileName::Log(id) => write!(f, "{id}.log"),
            FileName::ValueLog(id) => write!(f, "{id}.vlog"),
            FileName::WalSidecar(id) => write!(f, "{id}.slog"),
            FileName::Values(id) => write!(f, "{id}.vals"),
            FileName::Manifest(id) => write!(f, "MANIFEST-{id}"),
            FileName::Current => f.write_str("CURRENT"),
            FileName::Lock => f.write_str("LOCK"),
            FileName::InfoLog => f.write_str("LOG"),
            FileName::FormatFile => f.write_str("TERRACE"),
            FileName::Reserve => f.write_str("RESERVE"),
            FileName::Unsynced => f.write_str("UNSYNCED"),
            FileName::Temporary(number) => write!(f, "{number:06}.dbtmp"),
        }
    }
}

/// Parses a number of at least six digits, without unnecessary leading zeros.
fn number(digits: &str) -> Option<u64> {
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    (format!("{number:06}") == digits).then_some(number)
}

/// Returns the contents of `CURRENT` that name `manifest`.
pub fn encode_current(manifest: LogId) -> String {
    format!("{}\n", FileName::Manifest(manifest))
}

/// Parses the contents of `CURRENT`.
pub fn decode_current(bytes: &[u8]) -> Result<LogId, Corrupt> {
    let bad = |offset, detail| Err(Corrupt::new("CURRENT", offset, detail));
    if bytes.is_empty() {
        return bad(0, "empty: a power cut lost its last change".to_string());
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return bad(0, format!("{} zero bytes: a power cut lost its last change", bytes.len()));
    }
    let Some(name) = bytes.strip_suffix(b"\n") else {
        return bad(bytes.len() as u64, "no newline at the end".to_string());
    };
    match std::str::from_utf8(name).ok().and_then(FileName::parse) {
        Some(FileName::Manifest(id)) => Ok(id),
        _ => bad(0, format!("names no manifest, but \"{}\"", name[..name.len().min(100)].escape_ascii())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (file, name) in [
            (FileName::Table(TableId(5)), "000005.ldb"),
            (FileName::Table(TableId(12_345_678)), "12345678.ldb"),
            (FileName::Bundle(TableId(5)), "000005.bundle"),
            (FileName::Log(LogId(0)), "000000.log"),
            (FileName::ValueLog(LogId(6)), "000006.vlog"),
            (FileName::WalSidecar(LogId(6)), "000006.slog"),
            (FileName::Values(SegmentId(7)), "000007.vals"),
            (FileName::Manifest(LogId(u64::MAX)), "MANIFEST-18446744073709551615"),
            (FileName::Current, "CURRENT"),
            (FileName::Lock, "LOCK"),
            (FileName::InfoLog, "LOG"),
            (FileName::FormatFile, "TERRACE"),
            (FileName::Temporary(7), "000007.dbtmp"),
        ] {
            assert_eq!(file.to_string(), name);
            assert_eq!(FileName::parse(name), Some(file));
        }
        assert_eq!(FileName::parse(&FileName::table_alternative(TableId(5))), Some(FileName::Table(TableId(5))));
        assert_eq!(FileName::parse("LOG.old"), Some(FileName::InfoLog));
    }

    #[test]
    fn foreign_names_are_rejected() {
        for name in [
            "",
            "5.ldb",
            "0000005.ldb",
            "+00005.ldb",
            "000005",
            "000005.",
            "000005.ldb2",
            "000005.ldb.bak",
            "x000005.ldb",
            "MANIFEST",
            "MANIFEST-",
            "MANIFEST-5",
            "MANIFEST-000005.bak",
            "184467440737095516160.log",
            "current",
            "LOG.1",
            "IDENTITY",
            "OPTIONS-000005",
            "lost",
            "MANIFEST-.ldb",
            ".ldb",
            "000005.blob",
            "٠٠٠٠٠٥.ldb",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn errors_in_current_are_described() {
        assert_eq!(encode_current(LogId(5)), "MANIFEST-000005\n");
        assert_eq!(decode_current(b"MANIFEST-000005\n"), Ok(LogId(5)));
        for (bytes, what) in [
            (&b""[..], "empty"),
            (b"\0\0\0", "3 zero bytes"),
            (b"MANIFEST-000005", "no newline"),
            (b"MANIFEST-5\n", "names no manifest, but \"MANIFEST-5\""),
            (b"000005.log\n", "names no manifest"),
            (b"\xff\n", "names no manifest, but \"\\xff\""),
            (b"\n", "names no manifest"),
            (b"MANIFEST-000005\r\n", "names no manifest"),
        ] {
            let error = decode_current(bytes).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
