//! Named choices of parts, each with the system it stands for.
use crate::{Error, Options, Result};
use terrace_storage::Tier;

/// A preset's name and what it is.
pub const PRESETS: &[(&str, &str)] = &[
    (
        "leveldb",
        "LevelDB's own design and numbers: block tables in a directory, synced inline, leveled, seek compaction",
    ),
    ("volatile", "as leveldb, never synced: the upper bound of speed; promises nothing at a power cut"),
];

impl Options {
    /// The options of the preset called `name`; the error lists those there are.
    pub fn preset(name: &str) -> Result<Options> {
        match name {
            "leveldb" => Ok(Options::leveldb_compatible()),
            "volatile" => {
                let mut options = Options::leveldb_compatible().named("volatile");
                options.durability = Tier::None;
                Ok(options)
            }
            _ => {
                let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
                Err(Error::Invalid(format!("no preset is named {name:?}; there are {}", names.join(", "))))
            }
        }
    }
}
