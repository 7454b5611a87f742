//! `load`: many pairs from lines, in batches of bounded size.
use crate::{
    args::Store,
    lines::{Format, Line},
    progress,
};
use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
};
use terrace::{Db, Error, WriteBatch, WriteOptions};

/// A batch is written once it takes this many bytes. One longer pair still goes in whole.
const BATCH_BYTES: usize = 16 << 20;
/// What a line takes beside its key and its value, about.
const LINE_BYTES: usize = 64;
/// All memtables together may be that large, unless the options say how large: larger runs are merged fewer times.
const MEMTABLES_BYTES: u64 = 128 << 20;

/// Stores many pairs from a file. Makes the store if it is missing.
///
/// One pair a line: key, tab, value (`jsonl`: {"key":"…","value":"…"}, escaped texts). A line with a key alone
/// deletes that key. Stops at the first line it cannot read; what came before it is loaded. Writes no log, unless
/// log_keep_bytes asks for one: what is killed on the way leaves a store with only some of the lines, from the first on.
/// Gathers 128 MiB in memory, unless memtable_bytes or memory_bytes is set.
#[derive(clap::Args)]
pub struct Load {
    #[command(flatten)]
    store: Store,
    /// The file; `-` reads stdin.
    file: PathBuf,
    /// What a line looks like.
    #[arg(long, value_enum, default_value_t = Format::Escaped)]
    format: Format,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

/// What has been handed to the store.
#[derive(Default)]
struct Loaded {
    lines: u64,
    puts: u64,
    deletes: u64,
    /// After each batch, the store's last sequence and the lines so far.
    batches: Vec<(u64, u64)>,
}

impl Loaded {
    /// How many lines are certainly there, if the store has everything up to `sequence`.
    fn up_to(&self, sequence: u64) -> u64 {
        self.batches.iter().take_while(|(last, _)| *last <= sequence).last().map_or(0, |(_, lines)| *lines)
    }
}

impl Load {
    /// Loads all lines; durable when it returns, unless the store itself has failed.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let (input, bytes) = self.input()?;
        let sized = self.store.names("memtable_bytes") || self.store.names("memory_bytes");
        let mut log = false;
        let db = self.store.open_or_create_with(|options| {
            if !sized {
                options.memtable_bytes = options.memtable_bytes.max(MEMTABLES_BYTES / options.memtables_max);
            }
            log = options.log_keep_bytes > 0;
        })?;
        let mut loaded = Loaded::default();
        let progress = progress::bar("loading", bytes);
        let outcome = self.load(&Target { db: &db, log }, input, &mut loaded, &progress);
        progress.finish_and_clear();
        let sure = loaded.up_to(db.durable_sequence());
        let closed = db.close();
        let Loaded { lines, puts, deletes, .. } = loaded;
        if let Err(failure) = closed {
            let error = match outcome {
                Err(error) if !error.is::<Error>() => error.context(failure),
                outcome => outcome.err().unwrap_or_else(|| failure.into()),
            };
            return Err(error.context(format!(
                "handed {lines} lines to the store, of which the first {sure} are sure to be loaded, then stopped"
            )));
        }
        outcome.with_context(|| format!("loaded {lines} lines ({puts} puts, {deletes} deletes), then stopped"))?;
        if self.json {
            writeln!(out, "{}", serde_json::json!({ "puts": puts, "deletes": deletes }))?;
        } else {
            writeln!(out, "loaded {puts} puts, {deletes} deletes")?;
        }
        Ok(())
    }

    /// The lines to read, and how many bytes of them there are if that is known.
    fn input(&self) -> Result<(Box<dyn BufRead>, Option<u64>)> {
        if self.file.as_os_str() == "-" {
            return Ok((Box::new(io::stdin().lock()), None));
        }
        let named = || self.file.display().to_string();
        let file = File::open(&self.file).with_context(named)?;
        let about = file.metadata().with_context(named)?;
        Ok((Box::new(BufReader::with_capacity(1 << 20, file)), about.is_file().then_some(about.len())))
    }

    fn load(
        &self,
        target: &Target<'_>,
        mut input: Box<dyn BufRead>,
        loaded: &mut Loaded,
        progress: &ProgressBar,
    ) -> Result<()> {
        let mut batch = Batch::default();
        let mut text = Vec::new();
        let mut number = 0u64;
        loop {
            text.clear();
            number += 1;
            let bytes = input.read_until(b'\n', &mut text).with_context(|| format!("read line {number}"));
            let parsed = match bytes {
                Ok(0) => return target.write(&mut batch, loaded),
                Ok(bytes) => {
                    progress.inc(bytes as u64);
                    let line = text.strip_suffix(b"\n").unwrap_or(&text);
                    self.format.parse(line).map_err(|error| anyhow!("line {number}: {error:#}"))
                }
                Err(error) => Err(error),
            };
            match parsed {
                Ok(line) => batch.add(line),
                Err(error) => return target.write(&mut batch, loaded).and(Err(error)),
            }
            if batch.is_full() {
                target.write(&mut batch, loaded)?;
            }
        }
    }
}

/// Lines on their way to the store.
#[derive(Default)]
struct Batch {
    lines: Vec<Line>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, line: Line) {
        self.bytes += LINE_BYTES + line.key.len() + line.value.as_ref().map_or(0, Vec::len);
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }
}

/// Where they go.
struct Target<'a> {
    db: &'a Db,
    /// With a log.
    log: bool,
}

impl Target<'_> {
    /// Writes the batch by key, lines of one key as they came: neighbours find their place in memory faster.
    fn write(&self, batch: &mut Batch, loaded: &mut Loaded) -> Result<()> {
        let mut lines = std::mem::take(batch).lines;
        if lines.is_empty() {
            return Ok(());
        }
        lines.sort_by(|a, b| a.key.cmp(&b.key));
        let mut operations = WriteBatch::new();
        for Line { key, value } in &lines {
            match value {
                Some(value) => operations.put(key, value),
                None => operations.delete(key),
            };
        }
        let written = match self.log {
            true => self.db.write(operations, WriteOptions::default()),
            false => self.db.write_unlogged(operations),
        };
        let last = written.with_context(|| format!("from line {} on", loaded.lines + 1))?;
        let puts = lines.iter().filter(|line| line.value.is_some()).count() as u64;
        loaded.lines += lines.len() as u64;
        loaded.puts += puts;
        loaded.deletes += lines.len() as u64 - puts;
        loaded.batches.push((last, loaded.lines));
        Ok(())
    }
}
