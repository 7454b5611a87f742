//! Determines the layout of a store, before a backend is chosen for it.
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

/// Decodes `text`, the format file of the store `place`; [`Error::Unsupported`] if it announces a
/// feature that this version does not know.
pub fn decode_format_file(place: &str, text: &str) -> Result<FormatFile> {
    FormatFile::decode(text).map_err(|found: Corrupt| match found.what {
        UNKNOWN => Error::Unsupported(format!("{place}/TERRACE at byte {}: {}", found.offset, found.detail)),
        _ => Error::corrupt(format!("{place}/TERRACE"), 0, found),
    })
}

/// The layout of the store in `fs`: that of its format file, LevelDB's without one, and that of
/// `setup` if there is no store yet. A store opened for salvage may have lost the root or the
/// format file; then the names of its files decide.
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

/// Refuses to create a store over one that has lost `CURRENT` and its format file. WALs that the
/// new store would not read must hold no writes, and there must be no tables where it would not
/// look. (The engine checks the files that the new store would read.)
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

/// Whether a WAL, or a value-log segment, holds more than the empty batch that begins Terrace's.
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

/// The layout of a store without a format file, by the names of its files; `wanted` where no file
/// decides. The place of values must not be guessed wrong: pointers would be taken for values.
fn by_names(fs: &dyn FileSystem, wanted: Layout) -> Layout {
    let names = fs.list().unwrap_or_default(); // opening the store reports the error
    let has_folders = dirs::any_folder(fs).is_ok_and(|folder| folder.is_some());
    let in_folders = Layout { tables: TableForm::Directory, values: Values::Table, ..wanted };
    let wanted = if has_folders { in_folders } else { wanted };
    let is_log = |entry: &DirEntry| matches!(FileName::parse(&entry.name), Some(FileName::Log(_)));
    // Unless there are segments too, which no store without a value log has.
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
