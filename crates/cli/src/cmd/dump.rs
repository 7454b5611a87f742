//! `dump`: everything, in a format that `load` reads.
use crate::{args::Store, lines::Format};
use anyhow::Result;
use std::io::Write;
use terrace::ReadOptions;

/// Prints every pair in key order, in a format that `load` reads.
#[derive(clap::Args)]
pub struct Dump {
    #[command(flatten)]
    store: Store,
    /// How a pair becomes a line.
    #[arg(long, value_enum, default_value_t = Format::Escaped)]
    format: Format,
}

impl Dump {
    /// Prints the pairs as they come; holds one at a time.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let db = self.store.open_read_only()?;
        let mut line = Vec::new();
        for pair in db.scan(ReadOptions::new().fill_cache(false)) {
            let (key, value) = pair?;
            line.clear();
            self.format.write(&key, &value, &mut line);
            out.write_all(&line)?;
        }
        Ok(())
    }
}
