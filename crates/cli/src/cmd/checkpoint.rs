//! `checkpoint`: a copy of a store as of one moment.
use crate::{args::Store, directory::refuse_foreign, table::size};
use anyhow::{Result, bail, ensure};
use std::{io::Write, path::PathBuf};
use terrace::Checkpoint as Made;
use terrace_storage::lies_in;

/// Copies a store as it is now into a new directory, in seconds: tables are linked, not copied, where that can be.
///
/// The copy is a store of its own, and survives a power cut when this returns. On another file system tables are copied, which
/// takes as long as their bytes do. The store must not be open elsewhere; a program that has it open calls Db::checkpoint.
#[derive(clap::Args)]
pub struct Checkpoint {
    #[command(flatten)]
    store: Store,
    /// Where the copy is made: an absent or empty directory.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    /// Prints what was shared and what was copied.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        refuse_foreign(&self.to)?;
        if lies_in(&self.to, &self.store.path)? {
            let (to, store, same) =
                (self.to.display(), self.store.path.display(), lies_in(&self.store.path, &self.to)?);
            ensure!(!same, "{to} is the store to copy itself; name another place for the copy");
            bail!("{to} lies in {store}, in which a checkpoint makes no other store");
        }
        let db = self.store.open()?;
        let made = db.checkpoint(&self.to)?;
        db.close()?;
        let Made { sequence, linked, copied, bytes } = made;
        if self.json {
            let object =
                serde_json::json!({ "sequence": sequence, "linked": linked, "copied": copied, "bytes": bytes });
            writeln!(out, "{object}")?;
            return Ok(());
        }
        writeln!(
            out,
            "{} holds everything up to sequence {sequence}: {linked} tables linked, {copied} copied, {}",
            self.to.display(),
            size(bytes)
        )?;
        if copied > 0 {
            writeln!(out, "copied, because {} is on another file system, or on one without links", self.to.display())?;
        }
        Ok(())
    }
}
