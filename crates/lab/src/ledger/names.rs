//! Which kind of file an inode of the store is.
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
};
use terrace_format::names::FileName;

/// Directories below the store's own that are looked into.
const DEPTH_MAX: u32 = 4;
/// A file that is renamed meanwhile may be missed, or be listed under the name that it had. The last one looks into directory tables, too.
const LISTINGS_MAX: u8 = 2;

/// What a file of a store is for, by its path below the store's directory, or one above it: Terrace's, LevelDB's and RocksDB's names. The words
/// are those of reports.
pub fn kind_of(below: &Path) -> &'static str {
    // A directory table: its pairs have the names of their keys, whatever those are.
    if below.parent().is_some_and(is_table_folder) {
        return "tables";
    }
    let name = below.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match FileName::parse(name) {
        Some(FileName::Table(_) | FileName::Bundle(_)) => "tables",
        Some(FileName::Log(_) | FileName::SmallLog(_)) => "log",
        Some(FileName::ValueLog(_) | FileName::Values(_)) => "value_log",
        Some(FileName::Manifest(_)) => "manifest",
        Some(FileName::Current | FileName::FormatFile | FileName::Temporary(_)) => "root",
        Some(FileName::Lock | FileName::InfoLog | FileName::Reserve | FileName::Unsynced) => "other",
        None if name == "IDENTITY" => "root",
        None if name.ends_with(".log") => "log",
        None if name.ends_with(".blob") => "value_log",
        None => "other",
    }
}

/// Whether a folder of this path holds the folders of directory tables: `L2`.
fn is_level(path: &Path) -> bool {
    let level = path.file_name().and_then(|name| name.to_str()?.strip_prefix('L'));
    level.is_some_and(|level| level.parse::<u8>().is_ok())
}

/// Whether a folder of this path is a directory table: `L2/000012`.
fn is_table_folder(path: &Path) -> bool {
    let is_number = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<u64>().is_ok());
    is_number && path.parent().is_some_and(is_level)
}

/// What the file at `path` is for to the store in `store`: its [kind](kind_of), `directory`, or `elsewhere`.
pub fn kind_within(store: &Path, path: &Path, is_directory: bool) -> &'static str {
    match path.strip_prefix(store) {
        _ if is_directory => "directory",
        Ok(below) => kind_of(below),
        Err(_) => "elsewhere",
    }
}

/// Kinds by inode, found by listing directories when an inode is not where it was.
///
/// File systems reuse the number of a deleted file at once, so a remembered path is looked at again before it is used. Events
/// are read in batches, after they happened: a listing that began after a batch was read answers for all of it, even where a
/// file has since left its path.
pub struct Names {
    top: PathBuf,
    store: PathBuf,
    /// Of the file system: numbers of another one's files mean nothing here.
    device: Option<u64>,
    seen: HashMap<u64, Seen>,
    /// Listings since the last batch was read.
    listings: u8,
}

struct Seen {
    path: PathBuf,
    is_directory: bool,
}

impl Names {
    /// Of the store in `dir`.
    pub fn new(dir: &Path) -> Names {
        Names::around(dir, dir)
    }

    /// Of all files below `top`, those of the store among them.
    pub fn around(top: &Path, store: &Path) -> Names {
        Names { top: top.into(), store: store.into(), device: None, seen: HashMap::new(), listings: 0 }
    }

    /// A batch was read: whatever is asked for from now on has happened by now.
    pub fn happened(&mut self) {
        self.listings = 0;
    }

    /// The kind of `inode`, `directory` for directories, `elsewhere` for files outside the store; `None` if there was no such file
    /// any more when it was looked for.
    pub fn kind(&mut self, inode: u64) -> Option<&'static str> {
        self.look_up(inode)?;
        let seen = self.seen.get(&inode)?;
        Some(kind_within(&self.store, &seen.path, seen.is_directory))
    }

    /// Whether `inode` is a folder of the store that holds the folders of directory tables.
    pub fn is_level(&mut self, inode: u64) -> bool {
        let found = self.look_up(inode).and_then(|()| self.seen.get(&inode));
        found.is_some_and(|seen| seen.is_directory && is_level(&seen.path) && seen.path.starts_with(&self.store))
    }

    /// Sees to it that `inode` is among what was seen; `None` if there is no such file any more.
    fn look_up(&mut self, inode: u64) -> Option<()> {
        if self.listings == 0 && self.is_remembered(inode) {
            return Some(());
        }
        while self.listings == 0 || !self.seen.contains_key(&inode) {
            if self.listings == LISTINGS_MAX {
                return None;
            }
            self.list_all();
        }
        Some(())
    }

    fn list_all(&mut self) {
        if self.listings == 0 {
            self.seen.clear();
            self.device = fs::metadata(&self.top).ok().map(|metadata| metadata.dev());
        }
        self.listings += 1;
        let top = self.top.clone();
        self.list(&top, 0);
        for path in top.parent().into_iter().chain([&*top]) {
            self.remember(path);
        }
    }

    fn is_remembered(&self, inode: u64) -> bool {
        let Some(seen) = self.seen.get(&inode) else { return false };
        fs::symlink_metadata(&seen.path).is_ok_and(|metadata| {
            let is_same = (metadata.ino(), Some(metadata.dev())) == (inode, self.device);
            is_same && metadata.is_dir() == seen.is_directory
        })
    }

    /// A directory, if it is of this file system.
    fn remember(&mut self, path: &Path) -> bool {
        let here = fs::symlink_metadata(path).ok().filter(|metadata| Some(metadata.dev()) == self.device);
        here.is_some_and(|metadata| {
            self.seen.entry(metadata.ino()).or_insert(Seen { path: path.into(), is_directory: true });
            true
        })
    }

    fn list(&mut self, dir: &Path, depth: u32) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.seen.entry(entry.ino()).or_insert(Seen { path, is_directory: false });
            } else if self.remember(&path)
                && depth < DEPTH_MAX
                && (self.listings == LISTINGS_MAX || !is_table_folder(&path))
            {
                self.list(&path, depth + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_kind() {
        let cases = [
            ("000005.ldb", "tables"),
            ("000005.sst", "tables"),
            ("000005.log", "log"),
            ("000009.blob", "value_log"),
            ("000009.vlog", "value_log"),
            ("000009.slog", "log"),
            ("000009.vals", "value_log"),
            ("000009.bundle", "tables"),
            ("L0/000009/META", "tables"),
            ("L1/000009/MANIFEST-000001", "tables"), // a pair whose key is so called
            ("store/L1/000009/a.1.c0412bfb", "tables"),
            ("L1/a", "other"),
            ("lost/MANIFEST-000001", "manifest"),
            ("RESERVE", "other"),
            ("MANIFEST-000004", "manifest"),
            ("CURRENT", "root"),
            ("000004.dbtmp", "root"),
            ("LOG", "other"),
            ("OPTIONS-000007", "other"),
        ];
        for (name, kind) in cases {
            assert_eq!(kind_of(Path::new(name)), kind, "{name}");
        }
    }

    #[test]
    fn an_inode_is_looked_up_again_when_its_file_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        let [table, log] = ["000001.ldb", "000002.log"].map(|name| dir.path().join(name));
        fs::write(&table, b"x").expect("written");
        let inode = |path: &Path| fs::metadata(path).expect("there").ino();
        let (file, directory) = (inode(&table), inode(dir.path()));
        let mut names = Names::new(dir.path());
        assert_eq!((names.kind(file), names.kind(directory)), (Some("tables"), Some("directory")));
        fs::rename(&table, &log).expect("renamed");
        assert_eq!(names.kind(file), Some("tables"), "as it was when it happened, which is before the listing");
        names.happened();
        assert_eq!(names.kind(file), Some("log"));
        fs::remove_file(&log).expect("removed");
        names.happened();
        assert_eq!(names.kind(file), None);
    }
}
