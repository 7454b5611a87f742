//! `load`: stores pairs from the lines of a file, in batches of bounded size.
use crate::{
    args::{Family, Store},
    lines::{Format, Line},
    progress,
};
use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
};
use terrace::{ColumnFamily, Db, Error, WriteBatch, WriteOptions};

/// Maximum batch size in bytes. A single pair that is longer is one batch.
const BATCH_BYTES: usize = 16 << 20;
/// Approximate memory overhead of a line in bytes.
const LINE_BYTES: usize = 64;
/// Number of bad lines that `--skip-bad` prints. Further bad lines are only counted.
const BAD_LINES_SHOWN: u64 = 20;
/// Total size of the memtables, unless options set it. Large memtables make long sorted runs,
/// which are compacted fewer times.
const MEMTABLES_BYTES: u64 = 128 << 20;

/// Stores pairs from a file. Creates the store if it is missing.
///
/// Each line is a pair: key, tab, value (with `jsonl`: {"key":"…","value":"…"}, where bytes that
/// are not UTF-8 are {"base64":"…"}). Any other line is bad: the load stops with exit status 1 and
/// names the line, and earlier lines are loaded. --skip-bad skips and counts bad lines. --deletes
/// treats a key without a value as a delete. The load writes no WAL unless wal_size_limit is set,
/// so a killed load leaves a prefix of the lines in the store. With presets without a memory_budget
/// it uses 128 MiB of memory unless write_buffer_size is set.
#[derive(clap::Args)]
pub struct Load {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    family: Family,
    /// The file; `-` reads stdin.
    file: PathBuf,
    /// Format of a line.
    #[arg(long, value_enum, default_value_t = Format::Escaped)]
    format: Format,
    /// Delete the key of a line without a tab (with `jsonl`: without "value"). Without this flag
    /// such a line is bad.
    #[arg(long)]
    deletes: bool,
    /// Skip bad lines. Prints the first 20 of them and their number.
    #[arg(long)]
    skip_bad: bool,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

/// Counts of the input lines that were written to the store or skipped.
#[derive(Default)]
struct Loaded {
    lines: u64,
    puts: u64,
    deletes: u64,
    /// Number of bad lines that were skipped.
    skipped: u64,
    /// For each batch: the store's last sequence number after it, and the number of lines so far.
    batches: Vec<(u64, u64)>,
}

impl Loaded {
    /// Returns the number of input lines that the store certainly contains if it has every write up
    /// to sequence number `sequence`.
    fn up_to(&self, sequence: u64) -> u64 {
        self.batches.iter().take_while(|(last, _)| *last <= sequence).last().map_or(0, |(_, lines)| *lines)
    }
}

impl Load {
    /// Loads all lines. They are durable when this returns, unless the store failed.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let (input, bytes) = self.input()?;
        let mut lines = Lines { input, format: self.format, deletes: self.deletes, text: Vec::new(), number: 0 };
        // The first line is read before the store is created. A file of another kind usually has a
        // bad first line, and then no store is created.
        let first = lines.next()?;
        if let Some(Err(bad)) = &first
            && !self.skip_bad
        {
            bail!("{bad:#}; nothing was loaded");
        }
        let sized = self.store.names("write_buffer_size") || self.store.names("memory_budget");
        let mut log = false;
        let db = self.store.open_or_create_with(|options| {
            if !sized && options.memory_budget == 0 {
                options.write_buffer_size =
                    options.write_buffer_size.max(MEMTABLES_BYTES / options.max_write_buffer_number);
            }
            log = options.wal_size_limit > 0;
        })?;
        let mut loaded = Loaded::default();
        let progress = progress::bar("loading", bytes);
        let family = self.family.of_or_create(&db)?;
        let outcome = self.load(&Target { db: &db, family: &family, log }, first, &mut lines, &mut loaded, &progress);
        progress.finish_and_clear();
        drop(family);
        let sure = loaded.up_to(db.durable_sequence());
        let closed = db.close();
        let Loaded { lines, puts, deletes, skipped, .. } = loaded;
        if let Err(failure) = closed {
            let error = match outcome {
                Err(error) if !error.is::<Error>() => error.context(failure),
                outcome => outcome.err().unwrap_or_else(|| failure.into()),
            };
            return Err(error.context(format!(
                "passed {lines} lines to the store, the first {sure} of which are certainly loaded, then stopped"
            )));
        }
        outcome.with_context(|| format!("loaded {lines} lines ({puts} puts, {deletes} deletes), then stopped"))?;
        if self.json {
            writeln!(out, "{}", serde_json::json!({ "puts": puts, "deletes": deletes, "skipped": skipped }))?;
            return Ok(());
        }
        let skipped = if skipped > 0 { format!("; skipped {skipped} bad lines") } else { String::new() };
        writeln!(out, "loaded {puts} puts, {deletes} deletes{skipped}")?;
        Ok(())
    }

    /// Opens the input. Returns it with its size in bytes, if the size is known.
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
        first: Option<Result<Line>>,
        lines: &mut Lines,
        loaded: &mut Loaded,
        progress: &ProgressBar,
    ) -> Result<()> {
        let mut batch = Batch::default();
        let mut parsed = Ok(first);
        loop {
            progress.inc(lines.text.len() as u64);
            match parsed {
                Ok(Some(Ok(line))) => batch.add(lines.number, line),
                Ok(Some(Err(bad))) if self.skip_bad => {
                    loaded.skipped += 1;
                    progress.suspend(|| match loaded.skipped {
                        ..=BAD_LINES_SHOWN => eprintln!("skipped {bad:#}"),
                        next if next == BAD_LINES_SHOWN + 1 => eprintln!("further bad lines are counted only"),
                        _ => {}
                    });
                }
                Ok(None) => return target.write(&mut batch, loaded),
                Ok(Some(Err(error))) | Err(error) => return target.write(&mut batch, loaded).and(Err(error)),
            }
            if batch.is_full() {
                target.write(&mut batch, loaded)?;
            }
            parsed = lines.next();
        }
    }
}

/// The lines of the input.
struct Lines {
    input: Box<dyn BufRead>,
    format: Format,
    /// Whether a key without a value is a delete.
    deletes: bool,
    /// The last line read, with its newline.
    text: Vec<u8>,
    /// Number of the last line read. The first line has number 1.
    number: u64,
}

impl Lines {
    /// Reads and parses the next line. Returns `None` at the end. The inner error reports a bad
    /// line.
    fn next(&mut self) -> Result<Option<Result<Line>>> {
        self.text.clear();
        self.number += 1;
        let number = self.number;
        let bytes = self.input.read_until(b'\n', &mut self.text).with_context(|| format!("read line {number}"))?;
        if bytes == 0 {
            return Ok(None);
        }
        let line = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        let parsed = self.format.parse(line).and_then(|line| match line.value {
            None if !self.deletes => bail!("{}; with --deletes such a line deletes its key", self.format.lacks_value()),
            _ => Ok(line),
        });
        Ok(Some(parsed.map_err(|error| anyhow!("line {number}: {error:#}"))))
    }
}

/// A batch of lines to be written.
#[derive(Default)]
struct Batch {
    lines: Vec<Line>,
    bytes: usize,
    /// Number of the first input line in the batch.
    first: u64,
}

impl Batch {
    fn add(&mut self, number: u64, line: Line) {
        if self.lines.is_empty() {
            self.first = number;
        }
        self.bytes += LINE_BYTES + line.key.len() + line.value.as_ref().map_or(0, Vec::len);
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }
}

/// The store to which the lines are written.
struct Target<'a> {
    db: &'a Db,
    family: &'a ColumnFamily,
    /// Whether the batches are written to the WAL.
    log: bool,
}

impl Target<'_> {
    /// Writes the batch in key order, because neighbouring keys are inserted faster. Lines with the
    /// same key stay in input order.
    fn write(&self, batch: &mut Batch, loaded: &mut Loaded) -> Result<()> {
        let Batch { mut lines, first, .. } = std::mem::take(batch);
        if lines.is_empty() {
            return Ok(());
        }
        lines.sort_by(|a, b| a.key.cmp(&b.key));
        let mut operations = WriteBatch::new();
        for Line { key, value } in &lines {
            match value {
                Some(value) => operations.put_cf(self.family, key, value),
                None => operations.delete_cf(self.family, key),
            };
        }
        let written = self.db.write(operations, WriteOptions { disable_wal: !self.log, ..WriteOptions::default() });
        let last = written.with_context(|| format!("from line {first} on"))?;
        let puts = lines.iter().filter(|line| line.value.is_some()).count() as u64;
        loaded.lines += lines.len() as u64;
        loaded.puts += puts;
        loaded.deletes += lines.len() as u64 - puts;
        loaded.batches.push((last, loaded.lines));
        Ok(())
    }
}
