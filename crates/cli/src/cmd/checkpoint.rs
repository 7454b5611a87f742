//! `checkpoint`: copies a store at one point in time.
use crate::{args::Store, directory::refuse_foreign, table::size};
use anyhow::{Result, bail, ensure};
use std::{io::Write, path::PathBuf};
use terrace::Checkpoint as Made;
use terrace_storage::lies_in;

/// Copies the present state of a store into a new directory. This takes seconds, because SSTables
/// are hard-linked where possible.
///
/// The copy is an independent store. It is durable when the command returns. On another file
/// system SSTables are copied, which takes time in proportion to their size. The store must not be
/// open in another program; a program that has it open can call Db::checkpoint.
#[derive(clap::Args)]
pub struct Checkpoint {
    #[command(flatten)]
    store: Store,
    /// Directory of the copy, which must be absent or empty.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    /// Prints the numbers of linked and copied SSTables.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        refuse_foreign(&self.to)?;
        if lies_in(&self.to, &self.store.path)? {
            let (to, store, same) =
                (self.to.display(), self.store.path.display(), lies_in(&self.store.path, &self.to)?);
            ensure!(!same, "{to} is the source store itself; name another directory for the copy");
            bail!("{to} lies within {store}; name a directory outside the store");
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
            "{} contains all writes up to sequence number {sequence}: {linked} tables linked, {copied} copied, {}",
            self.to.display(),
            size(bytes)
        )?;
        if copied > 0 {
            writeln!(
                out,
                "copied, because {} is on another file system, or on one without hard links",
                self.to.display()
            )?;
        }
        Ok(())
    }
}
