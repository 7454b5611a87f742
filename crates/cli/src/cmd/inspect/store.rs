//! Prints a whole store, which is assembled from `CURRENT`, the manifest, the WALs and the format
//! file.
use super::{SHOWN_BYTES, edits, logs::Summary, picture, unnamed::Unnamed, user};
use crate::{
    bytes::quoted,
    json::text,
    layout,
    log_file::LogFile,
    table::{self, size},
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, DirEntry},
    io,
    io::Write,
    path::Path,
};
use terrace_format::{
    AddedTable, Edit, FileName, FormatFile, KeyOrder, LEVELS, LogId, TableId, log_record::Event, names::decode_current,
};
use terrace_storage::read_small_file;

/// Width of the picture of the levels.
const PICTURE_COLUMNS: usize = 72;
/// Number of edits that are printed, from the end of the manifest.
const EDITS_SHOWN: usize = 12;

/// The contents of a store's files, as `inspect` prints them.
struct Store {
    marker: Option<FormatFile>,
    manifest: LogId,
    max_manifest_file_size: u64,
    history: Vec<(u64, Edit)>,
    broken_tail: bool,
    levels: Vec<BTreeMap<TableId, AddedTable>>,
    logs: Vec<(LogId, FileName, Summary)>,
    /// Value-log segments with their sizes.
    segments: Vec<(FileName, u64)>,
    unnamed: Unnamed,
}

/// Prints the store in `path`.
pub fn show(path: &Path, as_json: bool, out: &mut dyn Write) -> Result<()> {
    let store = Store::read(path).with_context(|| path.display().to_string())?;
    if as_json {
        writeln!(out, "{}", store.json(path))?;
        return Ok(());
    }
    store.show_head(path, out)?;
    store.show_levels(out)?;
    store.show_unnamed(out)?;
    store.show_history(path, out)?;
    store.show_logs(out)?;
    store.show_segments(out)
}

/// Returns the JSON form of a format file.
pub fn marker_json(marker: &FormatFile) -> Value {
    let mut object = layout::json(marker.layout);
    object["version"] = marker.version.into();
    object["features"] = json!(marker.features);
    object["in_batches"] = marker.in_batches.into();
    object
}

impl Store {
    fn read(path: &Path) -> Result<Store> {
        let marker = match read_small_file(&path.join(FileName::FormatFile.to_string())) {
            Ok(text) => Some(FormatFile::decode(str::from_utf8(&text).context("TERRACE")?)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).context("TERRACE"),
        };
        let current = match read_small_file(&path.join(FileName::Current.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("no store here: CURRENT is missing"),
            current => current.context("CURRENT")?,
        };
        let manifest = decode_current(&current)?;
        let mut file = LogFile::open(&path.join(FileName::Manifest(manifest).to_string()))?;
        let mut store = Store {
            marker,
            manifest,
            max_manifest_file_size: file.bytes,
            history: Vec::new(),
            broken_tail: false,
            levels: vec![BTreeMap::new(); LEVELS],
            logs: Vec::new(),
            segments: Vec::new(),
            unnamed: Unnamed::default(),
        };
        store.broken_tail = loop {
            match file.next()? {
                Event::Record { offset, bytes } => match Edit::decode(&bytes) {
                    Ok(edit) => store.apply(offset, edit),
                    Err(_) => break true,
                },
                Event::Bad { .. } => break true,
                Event::End { torn, .. } => break torn,
            }
        };
        let files: Vec<_> = entries(path)?.into_iter().filter_map(named).collect();
        store.logs = read_logs(&files, store.log_number())?;
        store.segments = list_segments(&files)?;
        store.unnamed = Unnamed::read(path, &files, store.levels.iter().flat_map(BTreeMap::values))?;
        Ok(store)
    }

    fn apply(&mut self, offset: u64, edit: Edit) {
        for (level, id) in &edit.deleted {
            self.levels[*level].remove(id);
        }
        for (level, table) in &edit.added {
            self.levels[*level].insert(table.id, table.clone());
        }
        self.history.push((offset, edit));
    }

    /// Returns the newest value of a number that manifest edits may set, such as the log number.
    fn latest<T>(&self, number: impl Fn(&Edit) -> Option<T>) -> Option<T> {
        self.history.iter().rev().find_map(|(_, edit)| number(edit))
    }

    fn comparator(&self) -> String {
        self.latest(|edit| edit.comparator.clone()).unwrap_or_default()
    }

    /// Returns the lowest number of a WAL that the store needs. WALs with lower numbers are
    /// obsolete, except the previous WAL that old LevelDB versions name.
    fn log_number(&self) -> u64 {
        self.latest(|edit| edit.log_number).unwrap_or(0)
    }

    fn show_head(&self, path: &Path, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "store     {}", path.display())?;
        match &self.marker {
            None => writeln!(out, "format    LevelDB's; LevelDB can open it")?,
            Some(marker) => {
                let batches = if marker.in_batches { ", durable in batches" } else { "" };
                let leveldbs = if marker.is_leveldbs() { "; LevelDB can open it" } else { "" };
                let features = if marker.features.is_empty() { "none".to_owned() } else { marker.features.join(", ") };
                let layout = layout::text(marker.layout);
                writeln!(
                    out,
                    "format    version {}: {layout}, features {features}{batches}{leveldbs}",
                    marker.version
                )?;
            }
        }
        writeln!(out, "order     {}", self.comparator())?;
        let sequence = self.latest(|edit| edit.last_sequence).unwrap_or_default();
        let next = self.latest(|edit| edit.next_file_number).unwrap_or(0);
        writeln!(
            out,
            "numbers   last sequence number in SSTables {sequence}, next file {next}, WALs from {}",
            self.log_number()
        )?;
        Ok(())
    }

    fn show_levels(&self, out: &mut dyn Write) -> Result<()> {
        writeln!(out)?;
        let rows: Vec<Vec<String>> = self.levels.iter().enumerate().filter_map(level_row).collect();
        if rows.is_empty() {
            writeln!(out, "no tables")?;
            return Ok(());
        }
        table::write(out, &["level", "tables", "size", "smallest", "largest"], &rows)?;
        if self.comparator() != KeyOrder::Bytewise.name() {
            return Ok(()); // the picture orders keys bytewise, but the store's comparator does not
        }
        let ranges: Vec<Vec<picture::Range<'_>>> = self
            .levels
            .iter()
            .map(|tables| tables.values().map(|table| (user(&table.smallest), user(&table.largest))).collect())
            .collect();
        writeln!(out, "\nSSTables in key order (a digit: number of overlapping ones)")?;
        for (level, line) in picture::draw(&ranges, PICTURE_COLUMNS).iter().enumerate() {
            if !ranges[level].is_empty() {
                writeln!(out, "L{level} |{line}|")?;
            }
        }
        Ok(())
    }

    fn show_unnamed(&self, out: &mut dyn Write) -> Result<()> {
        let Unnamed { tables, bytes } = self.unnamed;
        if tables > 0 {
            writeln!(
                out,
                "\n{tables} more, {}, not in the manifest: not yet installed, obsolete, or left over by a crash",
                size(bytes)
            )?;
        }
        Ok(())
    }

    fn show_history(&self, path: &Path, out: &mut dyn Write) -> Result<()> {
        let name = FileName::Manifest(self.manifest);
        writeln!(out, "\n{name}: {} edits, {} bytes", self.history.len(), self.max_manifest_file_size)?;
        let hidden = self.history.len().saturating_sub(EDITS_SHOWN);
        if hidden > 0 {
            writeln!(
                out,
                "  … {hidden} earlier; every table of every edit: terrace inspect {}",
                path.join(name.to_string()).display()
            )?;
        }
        for (offset, edit) in &self.history[hidden..] {
            writeln!(out, "{offset:>10}  {}", edits::summary(edit))?;
        }
        if self.broken_tail {
            writeln!(out, "            the next record does not decode: the history ends here")?;
        }
        Ok(())
    }

    fn show_logs(&self, out: &mut dyn Write) -> Result<()> {
        let row = |(id, file, log): &(LogId, FileName, Summary)| {
            let sequences = log.sequences.map_or("-".into(), |(first, last)| format!("{first} to {last}"));
            let state = match (id.0 >= self.log_number(), log.torn, log.bad_bytes) {
                (false, ..) => "obsolete".into(),
                (true, false, 0) => "whole".into(),
                (true, true, 0) => "torn at the end".into(),
                (true, _, bad) => format!("{bad} bad bytes"),
            };
            let begun_by = match (log.ours, log.bytes) {
                (true, _) => "Terrace",
                (false, 0) => "-",
                (false, _) => "LevelDB",
            };
            let cells = [
                log.batches.to_string(),
                log.operations.to_string(),
                sequences,
                size(log.bytes),
                begun_by.into(),
                state,
            ];
            [vec![file.to_string()], cells.to_vec()].concat()
        };
        let rows: Vec<Vec<String>> = self.logs.iter().map(row).collect();
        writeln!(out)?;
        table::write(out, &["log", "batches", "operations", "sequences", "size", "written by", "state"], &rows)
    }

    /// Returns the bytes of a value-log segment that SSTables keep live.
    fn live(&self, file: FileName) -> u64 {
        let refs = self.levels.iter().flat_map(|tables| tables.values()).flat_map(|table| &table.refs);
        refs.filter(|(to, _)| edits::referred(*to) == file).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn show_segments(&self, out: &mut dyn Write) -> Result<()> {
        if self.segments.is_empty() {
            return Ok(());
        }
        let row = |(file, bytes): &(FileName, u64)| vec![file.to_string(), size(*bytes), size(self.live(*file))];
        let rows: Vec<Vec<String>> = self.segments.iter().map(row).collect();
        writeln!(out)?;
        table::write(out, &["segment", "size", "alive"], &rows)
    }

    fn json(&self, path: &Path) -> Value {
        let table = |table: &AddedTable| {
            json!({ "number": table.id.0, "bytes": table.bytes, "within": edits::within_json(table.within),
                "smallest": text(user(&table.smallest)), "largest": text(user(&table.largest)) })
        };
        let levels: Value = self
            .levels
            .iter()
            .enumerate()
            .map(|(level, tables)| json!({ "level": level, "tables": tables.values().map(table).collect::<Value>() }))
            .collect();
        let segments: Value = self
            .segments
            .iter()
            .map(|(file, bytes)| json!({ "file": file.to_string(), "bytes": bytes, "live_bytes": self.live(*file) }))
            .collect();
        let logs: Value = self.logs.iter().map(|(id, file, log)| {
            json!({ "file": file.to_string(), "number": id.0, "bytes": log.bytes, "ours": log.ours, "batches": log.batches, "operations": log.operations,
                "sequences": log.sequences, "bad_bytes": log.bad_bytes, "torn": log.torn, "needed": id.0 >= self.log_number() })
        }).collect();
        json!({
            "path": path.display().to_string(),
            "marker": self.marker.as_ref().map(marker_json),
            "comparator": self.comparator(),
            "last_sequence": self.latest(|edit| edit.last_sequence).map(|sequence| sequence.0),
            "next_file_number": self.latest(|edit| edit.next_file_number),
            "log_number": self.log_number(),
            "levels": levels,
            "manifest": { "number": self.manifest.0, "bytes": self.max_manifest_file_size, "edits": self.history.len(),
                "broken_tail": self.broken_tail },
            "logs": logs,
            "segments": segments,
            "unnamed": { "tables": self.unnamed.tables, "bytes": self.unnamed.bytes },
        })
    }
}

/// Returns the entries of a folder, or none if it does not exist.
pub fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        found => found?.collect(),
    }
}

/// Parses the name of a directory entry. Returns `None` for files that do not belong to a store.
fn named(entry: DirEntry) -> Option<(FileName, DirEntry)> {
    FileName::parse(&entry.file_name().to_string_lossy()).map(|name| (name, entry))
}

/// Reads the WALs from number `from` on. A value-log segment is read as a WAL, too, if the
/// manifest still needs it as a WAL.
fn read_logs(files: &[(FileName, DirEntry)], from: u64) -> Result<Vec<(LogId, FileName, Summary)>> {
    let mut logs = Vec::new();
    for (file, entry) in files {
        match *file {
            FileName::Log(id) | FileName::ValueLog(id) | FileName::WalSidecar(id)
                if id.0 >= from || *file != FileName::ValueLog(id) =>
            {
                logs.push((id, *file, Summary::of(&entry.path())?));
            }
            _ => {}
        }
    }
    logs.sort_by_key(|(id, file, _)| (*id, file.to_string()));
    Ok(logs)
}

/// Returns the value-log segments and their sizes.
fn list_segments(files: &[(FileName, DirEntry)]) -> Result<Vec<(FileName, u64)>> {
    let mut segments = Vec::new();
    for (file, entry) in files {
        if let FileName::ValueLog(_) | FileName::Values(_) = file {
            segments.push((*file, entry.metadata()?.len()));
        }
    }
    segments.sort_by_key(|(file, _)| file.to_string());
    Ok(segments)
}

/// Returns the columns of the line for a level. Returns `None` if the level is empty.
fn level_row((level, tables): (usize, &BTreeMap<TableId, AddedTable>)) -> Option<Vec<String>> {
    let smallest = tables.values().map(|table| user(&table.smallest)).min()?;
    let largest = tables.values().map(|table| user(&table.largest)).max()?;
    let bytes = tables.values().map(|table| table.bytes).sum();
    let shown = [smallest, largest].map(|key| quoted(key, SHOWN_BYTES));
    Some([vec![format!("L{level}"), tables.len().to_string(), size(bytes)], shown.to_vec()].concat())
}
