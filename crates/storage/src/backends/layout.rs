//! Determines the layout of a store. The result decides which backend opens the store.
use crate::{
    Error, Result, StorageConfig,
    backends::{dirs, files::root, raw::DATA},
    placement::OpenMode,
};
use std::io;
use terrace_format::{
    Batch, Corrupt, FileName, FormatFile, Layout, Medium, TableForm, Values,
    format_file::UNKNOWN,
    log_record::{Event, RecordDecoder},
    value_log::Frames,
};
use terrace_vfs::{DirEntry, FileSystem};

/// Decodes `text`, the format file of the store at `place`. Returns [`Error::Unsupported`] if it
/// names a feature that this version does not know.
pub fn decode_format_file(place: &str, text: &str) -> Result<FormatFile> {
    FormatFile::decode(text).map_err(|found: Corrupt| match found.what {
        UNKNOWN => Error::Unsupported(format!("{place}/TERRACE at byte {}: {}", found.offset, found.detail)),
        _ => Error::corrupt(format!("{place}/TERRACE"), 0, found),
    })
}

/// Returns the layout of the store in `fs`. An existing store has the layout of its format file,
/// or LevelDB's layout if it has no format file. A new store gets the layout of `setup`. A store
/// that is opened for salvage may have lost the root or the format file; its layout is then
/// derived from the names of its files.
pub(crate) fn of_files(fs: &dyn FileSystem, mode: OpenMode, setup: &StorageConfig) -> Result<Layout> {
    let wanted = Layout { medium: fs.medium(), ..setup.layout };
    if mode == OpenMode::Salvage {
        let marker = root::read_marker_of(fs).ok().flatten().and_then(|text| FormatFile::decode(&text).ok());
        return Ok(marker.map_or_else(|| by_names(fs, wanted), |marker| marker.layout));
    }
    if !root::is_there(fs)? {
        if mode == OpenMode::Create {
            check_no_store_lost(fs, wanted)?;
        }
        return Ok(wanted);
    }
    let layout = match root::read_marker_of(fs)? {
        Some(text) => decode_format_file(&fs.name(), &text)?.layout,
        None => Layout::default(),
    };
    match (layout.medium, fs.medium()) {
        (stated, there) if stated == there => Ok(layout),
        (Medium::Split, _) => {
            Err(Error::Missing { what: "device", object: missing_half(fs, "the store's logs and tables") })
        }
        (Medium::Directory, _) => Err(Error::Unsupported(missing_half(
            fs,
            "nothing of the store that is here, as its format file TERRACE says, or because it has none",
        ))),
    }
}

fn missing_half(fs: &dyn FileSystem, what: &str) -> String {
    format!("{} (the device that its file {DATA} names holds {what})", fs.name())
}

/// Checks that `fs` does not contain a store that has lost `CURRENT` and its format file, because
/// a new store would take its place. Returns an error if there is a WAL with writes that a store
/// of layout `wanted` would not read, or a table in a place that such a store would not search.
/// (The engine checks the files that the new store would read.)
fn check_no_store_lost(fs: &dyn FileSystem, wanted: Layout) -> Result<()> {
    if !fs.exists().map_err(|e| Error::io("look for", fs.name(), e))? {
        return Ok(());
    }
    for entry in fs.list().map_err(|e| Error::io("list", fs.name(), e))? {
        let path = || format!("{}/{}", fs.name(), entry.name);
        let apart = match FileName::parse(&entry.name) {
            Some(FileName::Log(_)) => false,
            Some(FileName::ValueLog(_) | FileName::WalSidecar(_)) => true,
            _ => continue,
        };
        let other = apart != (wanted.values == Values::Log);
        if other && has_writes(fs, &entry.name).map_err(|e| Error::io("read", path(), e))? {
            return Err(lost_root(fs, &entry.name));
        }
    }
    match dirs::any_folder(fs)? {
        Some(folder) if wanted.tables != TableForm::Directory => Err(lost_root(fs, &folder)),
        _ => Ok(()),
    }
}

fn lost_root(fs: &dyn FileSystem, there: &str) -> Error {
    let place = fs.name();
    let object =
        format!("{place}, although {place}/{there} is there; restore it, or salvage the rest with `terrace repair`");
    Error::Missing { what: "CURRENT file", object }
}

/// Returns whether a WAL or a value-log segment has more records than the empty batch with which
/// Terrace begins it.
fn has_writes(fs: &dyn FileSystem, name: &str) -> io::Result<bool> {
    let file = fs.open(name)?;
    let bytes = file.bytes()?;
    let read = |offset: u64, buffer: &mut [u8]| file.read_exact_at(buffer, offset);
    let mut next: Box<dyn FnMut() -> io::Result<Event>> = match FileName::parse(name) {
        Some(FileName::ValueLog(id)) => {
            let mut frames = Frames::new(id.0, bytes);
            Box::new(move || frames.next(read))
        }
        _ => {
            let mut records = RecordDecoder::new(bytes);
            Box::new(move || records.next(read))
        }
    };
    loop {
        match next()? {
            Event::End { .. } => return Ok(false),
            Event::Bad { .. } => {}
            Event::Record { bytes, .. } => {
                if !Batch::decode(bytes).is_ok_and(|batch| batch.is_empty()) {
                    return Ok(true);
                }
            }
        }
    }
}

/// Returns the layout of a store without a format file, derived from the names of its files.
/// Returns `wanted` if the names do not determine the layout. A wrong guess of the place of values
/// is dangerous, because reads would return value pointers as if they were values.
fn by_names(fs: &dyn FileSystem, wanted: Layout) -> Layout {
    let names = fs.list().unwrap_or_default(); // opening the store reports the error
    let has_folders = dirs::any_folder(fs).is_ok_and(|folder| folder.is_some());
    let in_folders = Layout { tables: TableForm::Directory, values: Values::Table, ..wanted };
    let wanted = if has_folders { in_folders } else { wanted };
    let is_log = |entry: &DirEntry| matches!(FileName::parse(&entry.name), Some(FileName::Log(_)));
    // A WAL with LevelDB's file name shows that the store has no value log. But if there are
    // segments, their names decide, because only a store with a value log has segments.
    let wanted = if names.iter().any(is_log) { Layout { values: Values::Table, ..wanted } } else { wanted };
    names.iter().filter_map(|entry| FileName::parse(&entry.name)).fold(wanted, |layout, name| match name {
        FileName::ValueLog(_) | FileName::WalSidecar(_) | FileName::Values(_)
            if layout.tables == TableForm::Directory =>
        {
            Layout { values: Values::Log, tables: TableForm::Block, ..layout }
        }
        FileName::ValueLog(_) | FileName::WalSidecar(_) | FileName::Values(_) => {
            Layout { values: Values::Log, ..layout }
        }
        FileName::Bundle(_) => Layout { tables: TableForm::Bundled, ..layout },
        _ => layout,
    })
}
