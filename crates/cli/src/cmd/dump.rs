//! `dump`: prints all key-value pairs of a store in a format that `load` reads.
use crate::{
    args::{Family, Follow, Store},
    lines::Format,
    progress::Pass,
};
use anyhow::Result;
use std::io::{self, IsTerminal, Write};
use terrace::ReadOptions;

/// Number of pairs between two progress updates.
const PAIRS_PER_LOOK: usize = 4096;

/// Prints all pairs in key order, in a format that `load` reads.
///
/// A dump has one column family. If the store has several, `--cf` must select one.
#[derive(clap::Args)]
pub struct Dump {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    family: Family,
    /// Format of a line.
    #[arg(long, value_enum, default_value_t = Format::Escaped)]
    format: Format,
}

impl Dump {
    /// Prints the pairs one after another, with one pair in memory at a time.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let db = self.store.open_to_read(&self.follow)?;
        let family = self.family.of_only(&db)?;
        let mut line = Vec::new();
        // If the dump is printed on a terminal, a progress bar would mix with it.
        let pass = (!io::stdout().is_terminal()).then(|| Pass::begin("dumping", family.clone()));
        let mut cursor = family.cursor(ReadOptions::new().fill_cache(false));
        cursor.seek_to_first()?;
        let mut number = 0;
        while cursor.valid() {
            if let Some(pass) = pass.as_ref().filter(|_| number % PAIRS_PER_LOOK == 0) {
                pass.at(cursor.key());
            }
            number += 1;
            line.clear();
            self.format.write(cursor.key(), cursor.value(), &mut line);
            out.write_all(&line)?;
            cursor.next()?;
        }
        Ok(())
    }
}
