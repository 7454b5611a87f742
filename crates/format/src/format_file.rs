//! The format file, named `TERRACE`. It records the parts of a store's format that LevelDB does
//! not know.
//!
//! ```text
//! # A Terrace store. LevelDB does not look here; Terrace must.
//! version = 1
//! storage = directory
//! table_format = block
//! values = table
//! features = lz4
//! durability = auto       (only if chosen when the store was created)
//! ```
//! A store without this file is a LevelDB store. A store whose format file only records a
//! durability mode is a LevelDB store too. Spec: docs/format/format-file.md.
use crate::{Corrupt, Layout, Medium, TableForm, Values};
use std::fmt::Write;

/// Feature flags that do not depend on the layout.
const OTHER_FEATURES: &[&str] = &[
    "lz4",
    crate::range_tombstones::FEATURE,
    crate::value_log::WAL_SIDECAR,
    crate::edit::SORTED_RUNS,
    crate::edit::COLUMN_FAMILIES,
];

/// Returns whether this version of Terrace can read stores with the feature `feature`, which is
/// named in the format file or in the manifest (see [`edit`](crate::edit)).
pub fn is_known(feature: &str) -> bool {
    OTHER_FEATURES.contains(&feature) || Layout::any_announces(feature)
}

const COMMENT: &str = "# A Terrace store. LevelDB does not look here; Terrace must.";
const VERSION: &str = "1";
const DURABILITY: &str = "durability";
const IN_BATCHES: &str = "auto";

/// The format of a store, chosen at its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatFile {
    /// Version of the format file and of the formats it describes: 1.
    pub version: u32,
    /// The layout.
    pub layout: Layout,
    /// Feature flags that a reader must know, including those of the layout; see [`is_known`].
    pub features: Vec<String>,
    /// Whether an open without an explicit durability mode makes many files durable with one sync,
    /// instead of one sync for each SSTable.
    pub in_batches: bool,
}

impl FormatFile {
    /// Returns the format of a store with this layout and the further features `others`.
    pub fn new(layout: Layout, others: impl IntoIterator<Item = &'static str>) -> FormatFile {
        FormatFile {
            version: 1,
            layout,
            features: layout.features().chain(others).map(String::from).collect(),
            in_batches: false,
        }
    }

    /// Returns whether LevelDB can open the store.
    pub fn is_leveldbs(&self) -> bool {
        self.layout == Layout::default() && self.features.is_empty()
    }

    /// Encodes the file's contents.
    pub fn encode(&self) -> String {
        let mut out = format!("{COMMENT}\nversion = {}\n", self.version);
        let features = self.features.join(" ");
        for (name, value) in [
            ("storage", self.layout.medium.name()),
            ("table_format", self.layout.tables.name()),
            ("values", self.layout.values.name()),
            ("features", &features),
        ] {
            let line = format!("{name} = {value}");
            writeln!(out, "{}", line.trim_end()).expect("a string takes all");
        }
        if self.in_batches {
            writeln!(out, "{DURABILITY} = {IN_BATCHES}").expect("a string takes all");
        }
        out
    }

    /// Decodes the file's contents. If the file contains an unknown version, field, value or
    /// feature, returns an error that names this item. A reader that ignored such an item could
    /// misread the store.
    pub fn decode(text: &str) -> Result<FormatFile, Corrupt> {
        let mut fields = Fields::read(text)?;
        let version = fields.take("version", |value| (value == VERSION).then_some(1))?;
        let layout = Layout {
            medium: fields.take("storage", Medium::from_name)?,
            tables: fields.take("table_format", TableForm::from_name)?,
            values: fields.take("values", Values::from_name)?,
        };
        let features = fields.take_features()?;
        let in_batches =
            fields.has(DURABILITY) && fields.take(DURABILITY, |value| (value == IN_BATCHES).then_some(true))?;
        if let Some(field) = fields.0.first() {
            return Err(field.corrupt(format!("unknown name \"{}\"", field.name)));
        }
        match layout.features().find(|feature| features.iter().all(|announced| announced != feature)) {
            None => Ok(FormatFile { version, layout, features, in_batches }),
            Some(feature) => {
                Err(Corrupt::new("format file", 0, format!("does not announce \"{feature}\", which it uses")))
            }
        }
    }
}

/// The value of [`Corrupt::what`] for a well-formed format file that contains an item which this
/// version of Terrace does not know.
pub const UNKNOWN: &str = "format file, newer than this version,";

/// The lines of the format file that the decoder has not processed yet.
struct Fields<'a>(Vec<Field<'a>>);

struct Field<'a> {
    offset: u64,
    name: &'a str,
    value: &'a str,
}

impl Field<'_> {
    fn corrupt(&self, detail: String) -> Corrupt {
        Corrupt::new(UNKNOWN, self.offset, format!("{detail} (this version of Terrace cannot open such a store)"))
    }
}

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Fields<'a>, Corrupt> {
        if !text.ends_with('\n') {
            return Err(Corrupt::new("format file", text.len() as u64, "no newline at the end"));
        }
        let (mut fields, mut offset) = (Vec::<Field<'a>>::new(), 0);
        for line in text.split_inclusive('\n') {
            let start = offset;
            offset += line.len() as u64;
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                return Err(Corrupt::new(
                    "format file",
                    start,
                    format!("\"{}\" is not of the form \"name = value\"", line.trim()),
                ));
            };
            let field = Field { offset: start, name: name.trim(), value: value.trim() };
            if fields.iter().any(|other| other.name == field.name) {
                return Err(field.corrupt(format!("\"{}\" twice", field.name)));
            }
            fields.push(field);
        }
        Ok(Fields(fields))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|field| field.name == name)
    }

    fn remove(&mut self, name: &str) -> Result<Field<'a>, Corrupt> {
        match self.0.iter().position(|field| field.name == name) {
            Some(at) => Ok(self.0.remove(at)),
            None => Err(Corrupt::new("format file", 0, format!("\"{name}\" is missing"))),
        }
    }

    fn take<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Corrupt> {
        let field = self.remove(name)?;
        read(field.value).ok_or_else(|| field.corrupt(format!("unknown {name} \"{}\"", field.value)))
    }

    fn take_features(&mut self) -> Result<Vec<String>, Corrupt> {
        let field = self.remove("features")?;
        match field.value.split_whitespace().find(|name| !is_known(name)) {
            None => Ok(field.value.split_whitespace().map(String::from).collect()),
            Some(name) => Err(field.corrupt(format!("unknown feature \"{name}\""))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for features in [&[][..], &["lz4"], &["lz4", "range-deletes"]] {
            for tables in TableForm::ALL {
                let layout = Layout { tables: *tables, ..Layout::default() };
                for in_batches in [false, true] {
                    let marker = FormatFile { in_batches, ..FormatFile::new(layout, features.iter().copied()) };
                    assert_eq!(FormatFile::decode(&marker.encode()), Ok(marker));
                }
            }
        }
    }

    #[test]
    fn unknown_fields_are_named_in_the_error() {
        let good = FormatFile::new(Layout::default(), ["lz4"]).encode();
        for (from, to, what) in [
            ("version = 1", "version = 2", "unknown version \"2\""),
            ("version = 1\n", "", "\"version\" is missing"),
            ("directory", "cloud", "unknown storage \"cloud\""),
            ("= block", "= pairs", "unknown table_format \"pairs\""),
            ("values = table", "values = attic", "unknown values \"attic\""),
            ("block", "bundled", "does not announce \"bundled-tables\""),
            ("lz4", "lz4 lz5", "unknown feature \"lz5\""),
            ("lz4\n", "lz4\ncipher = none\n", "unknown name \"cipher\""),
            ("lz4\n", "lz4\nversion = 1\n", "\"version\" twice"),
            ("lz4\n", "lz4\nnonsense\n", "\"nonsense\" is no"),
            ("lz4\n", "lz4\ndurability = never\n", "unknown durability \"never\""),
            ("lz4\n", "", "no newline"),
        ] {
            let error = FormatFile::decode(&good.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        for end in 0..good.len() {
            assert!(FormatFile::decode(&good[..end]).is_err(), "cut at {end}");
        }
    }
}
