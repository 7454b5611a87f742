//! `backup`: incremental backups of a store in a backup directory.
use crate::{args::Store, progress::bar, table};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::{io::Write, path::PathBuf};
use terrace::parse_size;
use terrace_backup::{Backup as Made, Backups, CreateOptions, Problem, Purged, Restored, Verified};

/// Incremental, checksummed backups of a store.
///
/// A backup directory contains any number of backups of a store. They share the files that did not
/// change in between, so each further backup copies only new files. Every file is named by its
/// SHA-256. A kill or a full disk during a backup leaves the older backups complete.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  terrace backup create cities /mnt/backups
  terrace backup list /mnt/backups
  terrace backup restore /mnt/backups cities-restored
  terrace backup purge /mnt/backups --keep 7")]
pub struct Backup {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Verify(Verify),
    Restore(Restore),
    Purge(Purge),
}

impl Backup {
    /// Runs the subcommand and writes its results to `out`.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.command {
            Command::Create(command) => command.run(out),
            Command::List(command) => command.run(out),
            Command::Verify(command) => command.run(out),
            Command::Restore(command) => command.run(out),
            Command::Purge(command) => command.run(out),
        }
    }
}

/// The backup directory and the form of the output.
#[derive(clap::Args)]
struct Place {
    /// Backup directory.
    #[arg(value_name = "BACKUPS")]
    backups: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Place {
    /// Opens the backups, which must exist.
    fn open(&self) -> Result<Backups> {
        ensure!(self.backups.is_dir(), "{} is not a directory with backups", self.backups.display());
        Ok(Backups::open(&self.backups)?)
    }
}

/// Backs up the present state of a store.
///
/// The first backup creates the backup directory. The store must not be open in another program; a
/// program that has it open can call terrace_backup::Backups::create.
#[derive(clap::Args)]
struct Create {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    place: Place,
    /// Bytes per second that the backup reads at most, such as 50MiB. Default: no limit.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<u64>,
    /// Directory for the checkpoint of a store without a directory, such as on a raw device. It
    /// must not exist, and is removed afterwards.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl Create {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let place = &self.place.backups;
        let backups = Backups::open(place)?;
        let mut options = CreateOptions::default().bytes_per_second(self.rate.unwrap_or(0));
        if let Some(scratch) = &self.scratch {
            options = options.scratch(scratch);
        }
        let db = self.store.open()?;
        let bar = bar("back up", Some(0));
        let made = backups.create_with(&db, &options, |progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        });
        bar.finish_and_clear();
        let made = made?;
        if self.place.json {
            writeln!(out, "{}", backup_json(&made))?;
            return Ok(db.close()?);
        }
        let Made { id, sequence, files, bytes, added_bytes, .. } = made;
        let [bytes, added] = [bytes, added_bytes].map(table::size);
        writeln!(
            out,
            "backup {id} contains all writes up to sequence number {sequence}: {files} files, {bytes}; {added} are new"
        )?;
        Ok(db.close()?)
    }
}

fn backup_json(backup: &Made) -> Value {
    let Made { id, sequence, files, bytes, added_bytes, .. } = backup;
    json!({ "id": id, "created": created(backup), "sequence": sequence, "files": files, "bytes": bytes,
        "added_bytes": added_bytes })
}

fn created(backup: &Made) -> String {
    humantime::format_rfc3339_seconds(backup.created).to_string()
}

/// Lists the backups, the oldest first.
#[derive(clap::Args)]
struct List {
    #[command(flatten)]
    place: Place,
}

impl List {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let (mut backups, mut damaged) = (Vec::new(), Vec::new());
        for backup in self.place.open()?.list()? {
            match backup {
                Ok(backup) => backups.push(backup),
                Err(error) => damaged.push(error.to_string()),
            }
        }
        if self.place.json {
            let backups: Vec<Value> = backups.iter().map(backup_json).collect();
            writeln!(out, "{}", json!({ "backups": backups, "damaged": damaged }))?;
        } else {
            let row = |backup: &Made| {
                let [bytes, added] = [backup.bytes, backup.added_bytes].map(table::size);
                let [id, sequence, files] =
                    [backup.id.to_string(), backup.sequence.to_string(), backup.files.to_string()];
                vec![id, created(backup), sequence, files, bytes, added]
            };
            let rows: Vec<_> = backups.iter().map(row).collect();
            table::write(out, &["id", "created (UTC)", "sequence", "files", "size", "new"], &rows)?;
            damaged.iter().try_for_each(|error| writeln!(out, "{error}"))?;
        }
        match damaged.len() {
            0 => Ok(()),
            count => bail!("{count} damaged records: `terrace backup purge BACKUPS --id N` removes such a backup"),
        }
    }
}

/// Reads all files of backups and compares them with their SHA-256. Exits with 1 after damage.
#[derive(clap::Args)]
struct Verify {
    #[command(flatten)]
    place: Place,
    /// Number of the backup. Default: all backups.
    #[arg(long, value_name = "N")]
    id: Option<u64>,
    /// Remove damaged objects. Use it only while the store still exists: the next backup writes
    /// those objects again whose files the store still has.
    #[arg(long, conflicts_with = "id")]
    remove_damaged: bool,
}

impl Verify {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let bar = bar("verify", None);
        let backups = self.place.open()?;
        let verified = match self.remove_damaged {
            true => backups.remove_damaged(),
            false => backups.verify_with(self.id, |bytes| bar.set_position(bytes)),
        };
        bar.finish_and_clear();
        let Verified { backups, objects, bytes, problems } = &verified?;
        if self.place.json {
            let problem = |found: &Problem| json!({ "id": found.id, "file": found.file, "detail": found.detail });
            let problems: Vec<Value> = problems.iter().map(problem).collect();
            let object = json!({ "backups": backups, "objects": objects, "bytes": bytes, "problems": problems });
            writeln!(out, "{object}")?;
        } else {
            for Problem { id, file, detail } in problems {
                let file = file.as_ref().map(|file| format!(", {file}")).unwrap_or_default();
                writeln!(out, "backup {id}{file}: {detail}")?;
            }
            writeln!(out, "read {objects} objects, {}, of {backups} backups", table::size(*bytes))?;
        }
        match problems.len() {
            0 if self.place.json => Ok(()),
            0 => Ok(writeln!(out, "no problems")?),
            count if self.remove_damaged => bail!(
                "{count} problems; damaged objects were removed, and the next backup writes those that the store has"
            ),
            count => bail!("{count} problems; if the store still exists, see `--remove-damaged`"),
        }
    }
}

/// Restores a store from a backup. Verifies every file that it copies.
#[derive(clap::Args)]
struct Restore {
    #[command(flatten)]
    place: Place,
    /// Directory of the restored store, which must be absent or empty.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Number of the backup. Default: the newest one.
    #[arg(long, value_name = "N")]
    id: Option<u64>,
}

impl Restore {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let backups = self.place.open()?;
        let id = match self.id {
            Some(id) => id,
            None => backups.newest()?.with_context(|| format!("{} has no backups", self.place.backups.display()))?,
        };
        let bar = bar("restore", None);
        let restored = backups.restore_with(id, &self.to, |bytes| bar.set_position(bytes));
        bar.finish_and_clear();
        let Restored { id, sequence, files, bytes } = restored?;
        if self.place.json {
            let object = json!({ "id": id, "sequence": sequence, "files": files, "bytes": bytes });
            return Ok(writeln!(out, "{object}")?);
        }
        writeln!(
            out,
            "{} contains backup {id}, with all writes up to sequence number {sequence}: {files} files, {}",
            self.to.display(),
            table::size(bytes)
        )?;
        Ok(())
    }
}

/// Removes backups, and the files that no remaining backup needs.
#[derive(clap::Args)]
struct Purge {
    #[command(flatten)]
    place: Place,
    /// Number of backups to keep, the newest ones.
    #[arg(long, value_name = "COUNT", required_unless_present = "id", conflicts_with = "id")]
    keep: Option<usize>,
    /// Number of the one backup to remove.
    #[arg(long, value_name = "N")]
    id: Option<u64>,
}

impl Purge {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let backups = self.place.open()?;
        let Purged { removed, objects, bytes } = match (self.id, self.keep) {
            (Some(id), _) => backups.remove(id)?,
            (None, keep) => backups.purge(keep.unwrap_or(usize::MAX))?,
        };
        if self.place.json {
            let object = json!({ "removed": removed, "objects": objects, "bytes": bytes });
            return Ok(writeln!(out, "{object}")?);
        }
        let ids: Vec<String> = removed.iter().map(u64::to_string).collect();
        let ids = match ids.len() {
            0 => "no backup".into(),
            1 => format!("backup {}", ids[0]),
            _ => format!("backups {}", ids.join(", ")),
        };
        writeln!(out, "removed {ids}; {objects} objects, {} freed", table::size(bytes))?;
        Ok(())
    }
}
