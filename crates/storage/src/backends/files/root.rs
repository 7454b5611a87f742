//! Files that are replaced atomically (`CURRENT` and the format file), and copies of files that
//! are set aside in `lost/`.
//!
//! To replace a file, the store writes the new contents under a temporary name and syncs this
//! file. Then it renames the file, and at last it syncs the directory. Without the sync before the
//! rename, the file could contain zeros after a power cut (docs/durability.md).
use super::{Store, bundle};
use crate::{
    Error, IoStats, Purpose, Result, SyncKind,
    durability::sync_directory,
    placement::{ObjectId, TableMeta},
};
use std::{collections::BTreeMap, io, time::Instant};
use terrace_format::{
    Corrupt, LogId,
    names::{FileName, decode_current, encode_current},
};
use terrace_vfs::{FileSystem, SMALL_FILE_BYTES_MAX, set_aside_from};

/// The number in the temporary name of the format file. No other file has this number, because the
/// numbers of other files begin at 1.
const MARKER_TEMPORARY: u64 = 0;

/// Makes the directory of a store.
pub(super) fn make_directory(fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
    let start = Instant::now();
    fs.make_directory().map_err(|e| Error::io("make directory", fs.name(), e))?;
    io_stats.synced(SyncKind::Directory, 0, start.elapsed());
    Ok(())
}

/// Replaces `CURRENT` by a file that names `manifest`.
pub(super) fn publish(store: &Store, manifest: LogId) -> Result<()> {
    replace(store, FileName::Current, manifest.0, encode_current(manifest).as_bytes())
}

/// Returns the manifest that `CURRENT` names; `None` if there is no `CURRENT`.
pub(super) fn load(store: &Store) -> Result<Option<LogId>> {
    let name = FileName::Current.to_string();
    let Some(bytes) = read_whole(&*store.fs, "root", &name)? else { return Ok(None) };
    decode_current(&bytes).map(Some).map_err(|found| Error::corrupt(store.path(&name), 0, found))
}

/// Replaces the format file by `text`.
pub(super) fn publish_format_file(store: &Store, text: &str) -> Result<()> {
    replace(store, FileName::FormatFile, MARKER_TEMPORARY, text.as_bytes())
}

/// Returns the text of the format file in `fs`; `None` if there is none.
pub(crate) fn read_marker_of(fs: &dyn FileSystem) -> Result<Option<String>> {
    let name = FileName::FormatFile.to_string();
    let Some(bytes) = read_whole(fs, "marker", &name)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|e| {
        let found = Corrupt::new("marker", e.utf8_error().valid_up_to() as u64, "not UTF-8");
        Error::corrupt(path(fs, &name), 0, found)
    })
}

/// Returns whether `fs` has a root, and therefore a store.
pub(crate) fn is_there(fs: &dyn FileSystem) -> Result<bool> {
    let current = FileName::Current.to_string();
    match fs.open(&current) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        opened => opened.map(|_| true).map_err(|e| Error::io("open", path(fs, &current), e)),
    }
}

/// Reads a whole small file; `None` if it does not exist. If the file is longer than any such file
/// of a store, returns an error without reading it.
pub(in crate::backends) fn read_whole(fs: &dyn FileSystem, what: &'static str, name: &str) -> Result<Option<Vec<u8>>> {
    let failed = |op| move |e| Error::io(op, path(fs, name), e);
    let file = match fs.open(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed("open"))?,
    };
    let bytes = file.bytes().map_err(failed("read size of"))?;
    if bytes > SMALL_FILE_BYTES_MAX {
        let found = Corrupt::new(what, SMALL_FILE_BYTES_MAX, format!("{bytes} bytes are too many"));
        return Err(Error::corrupt(path(fs, name), 0, found));
    }
    file.read_at(0, bytes as usize).map(Some).map_err(failed("read"))
}

/// The path of a file, for messages.
fn path(fs: &dyn FileSystem, name: &str) -> String {
    format!("{}/{name}", fs.name())
}

/// Replaces `target` atomically by a file with the contents `bytes`. The replacement is durable at
/// return, unless the durability mode is `none`.
fn replace(store: &Store, target: FileName, temporary: u64, bytes: &[u8]) -> Result<()> {
    store.writable("replace")?;
    let (from, to) = (FileName::Temporary(temporary).to_string(), target.to_string());
    store.remove_name(&from)?; // left by a process that ended before the rename
    let outcome =
        write_new(store, &from, bytes).and_then(|()| store.fs.rename(&from, &to).map_err(store.io("rename to", &to)));
    if let Err(error) = outcome {
        let _ = store.fs.remove(&from); // best effort: the next attempt removes it too
        return Err(error);
    }
    if store.tracker.promises() { sync_directory(&*store.fs, &store.io_stats) } else { Ok(()) }
}

fn write_new(store: &Store, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = store.fs.create(name).map_err(store.io("create", name))?;
    file.append(bytes).map_err(store.io("append to", name))?;
    store.io_stats.wrote(Purpose::Other, bytes.len() as u64);
    if store.tracker.promises() {
        let start = Instant::now();
        file.sync().map_err(store.io("sync", name))?;
        store.io_stats.synced(SyncKind::Root, bytes.len() as u64, start.elapsed());
    }
    Ok(())
}

/// Maintains the marker file `UNSYNCED`, which shows that files of the store were not synced. In
/// the durability mode `none` this function creates the marker. In any other mode, if the marker
/// exists, the function syncs `tables` and the format file and then removes the marker. The marker
/// itself need not be durable: if a power cut removes it, the power cut has also shown that all
/// files which still exist are durable.
pub(super) fn settle(store: &Store, tables: &[TableMeta]) -> Result<()> {
    store.writable("settle")?;
    let name = FileName::Unsynced.to_string();
    if !store.tracker.promises() {
        return match store.fs.create(&name) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(store.io("create", &name)(e)),
            _ => Ok(()),
        };
    }
    match store.fs.open(&name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => drop(opened.map_err(store.io("open", &name))?),
    }
    let mut files: BTreeMap<ObjectId, u64> = BTreeMap::new();
    for table in tables {
        *files.entry(bundle::file_object(table)).or_default() += table.bytes;
        for (referred, _) in &table.refs {
            files.entry(*referred).or_default();
        }
    }
    for (file, bytes) in files {
        let start = Instant::now();
        sync_any(store, &store.names(file))?;
        store.io_stats.synced(SyncKind::Tables(Purpose::Other), bytes, start.elapsed());
    }
    let marker = FileName::FormatFile.to_string();
    match store.fs.sync_file(&marker) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(store.io("sync", &marker)(e)),
        _ => {}
    }
    sync_directory(&*store.fs, &store.io_stats)?;
    store.remove_name(&name)
}

/// Syncs the first existing file of `names`.
fn sync_any(store: &Store, names: &[String]) -> Result<()> {
    let mut missing = None;
    for name in names {
        match store.fs.sync_file(name) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => missing = missing.or(Some((name, e))),
            Err(e) => return Err(store.io("sync", name)(e)),
        }
    }
    missing.map_or(Ok(()), |(name, e)| Err(store.io("sync", name)(e)))
}

/// Gives `object` a second name in `lost/`. If the name is taken, appends the suffix `-2`, `-3`, …
pub(super) fn set_aside(store: &Store, object: ObjectId) -> Result<()> {
    store.writable("set aside")?;
    let mut found = false;
    for name in store.names(object) {
        found |= link_into_lost(store, &name)?;
    }
    if !found {
        return Err(Error::Missing { what: "object", object: store.path(&store.name_of(object)) });
    }
    if store.tracker.promises() { sync_directory(&*store.fs, &store.io_stats) } else { Ok(()) }
}

/// Links the file `name` into `lost/`. Returns false if the file does not exist.
fn link_into_lost(store: &Store, name: &str) -> Result<bool> {
    if store.tracker.promises() {
        match store.fs.sync_file(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            synced => synced.map_err(store.io("sync", name))?,
        }
    }
    let (mut target, mut copy) = (format!("lost/{name}"), 1u64);
    loop {
        match store.fs.link(name, &target) {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(store.io("set aside", name)(e)),
            Err(_) => copy += 1,
        }
        target = format!("lost/{name}-{copy}");
    }
}

/// Returns the names of the files in `lost/` that [`set_aside`] or LevelDB's repair made.
pub(super) fn lost(store: &Store) -> Result<Vec<String>> {
    let mut names = store.fs.list_lost().map_err(store.io("list", "lost"))?;
    names.retain(|name| set_aside_from(name).is_some());
    names.sort();
    Ok(names)
}
