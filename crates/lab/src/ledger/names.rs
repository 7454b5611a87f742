//! Finds the kind of a store's file (such as SSTable or WAL) if only the file's inode number is
//! known.
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
};
use terrace_format::names::FileName;

/// Maximum depth of the directories below the store's directory that the ledger lists.
const DEPTH_MAX: u32 = 4;
/// Maximum count of directory listings for one lookup. A file that is being renamed may be missing
/// from a listing or have its old name there, so a second listing may find it. Only the last
/// listing includes the directory tables.
const LISTINGS_MAX: u8 = 2;

/// Returns the kind of a file from its path, which is relative to the store's directory or to a
/// parent of it. The function knows the file names of Terrace, LevelDB and RocksDB. Reports use
/// the same kinds.
pub fn kind_of(below: &Path) -> &'static str {
    // In a directory table, file names are the keys of the entries.
    if below.parent().is_some_and(is_table_folder) {
        return "tables";
    }
    let name = below.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match FileName::parse(name) {
        Some(FileName::Table(_) | FileName::Bundle(_)) => "tables",
        Some(FileName::Log(_) | FileName::WalSidecar(_)) => "log",
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

/// Returns whether the directory at `path` is a level, which contains directory tables. An example
/// is `L2`.
fn is_level(path: &Path) -> bool {
    let level = path.file_name().and_then(|name| name.to_str()?.strip_prefix('L'));
    level.is_some_and(|level| level.parse::<u8>().is_ok())
}

/// Returns whether the directory at `path` is a directory table, an SSTable with one file per
/// entry. An example is `L2/000012`.
fn is_table_folder(path: &Path) -> bool {
    let is_number = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<u64>().is_ok());
    is_number && path.parent().is_some_and(is_level)
}

/// Returns the role of the file at `path` for the store in the directory `store`: its
/// [kind](kind_of), `directory`, or `elsewhere` for a file outside the store.
pub fn kind_within(store: &Path, path: &Path, is_directory: bool) -> &'static str {
    match path.strip_prefix(store) {
        _ if is_directory => "directory",
        Ok(below) => kind_of(below),
        Err(_) => "elsewhere",
    }
}

/// Finds the kinds of files by inode. It lists the directories to find the path of an inode, and
/// remembers the paths.
///
/// A file system may give the inode number of a deleted file to a new file immediately. A
/// remembered path is therefore verified before it is used. If the file at this path no longer has
/// this inode, the directories are listed again.
///
/// Events of the kernel's trace are read in batches, after they happened. One listing that begins
/// after a batch was read suffices for all events of the batch, even if a file has been renamed or
/// deleted since.
pub struct Names {
    top: PathBuf,
    store: PathBuf,
    /// Device number of the file system; inodes of other file systems are ignored.
    device: Option<u64>,
    seen: HashMap<u64, KnownPath>,
    /// Number of directory listings since the last batch of events was read.
    listings: u8,
}

struct KnownPath {
    path: PathBuf,
    is_directory: bool,
}

impl Names {
    /// Creates a lookup for the files of the store in `dir`.
    pub fn new(dir: &Path) -> Names {
        Names::around(dir, dir)
    }

    /// Creates a lookup for all files below `top`, including those of the store in `store`.
    pub fn around(top: &Path, store: &Path) -> Names {
        Names { top: top.into(), store: store.into(), device: None, seen: HashMap::new(), listings: 0 }
    }

    /// Notes that a batch of trace events was read. All events of later lookups have happened
    /// before this call.
    pub fn batch_read(&mut self) {
        self.listings = 0;
    }

    /// Returns the kind of the file `inode`. The kind is `directory` for a directory and
    /// `elsewhere` for a file outside the store. It is `None` if the file no longer existed at the
    /// lookup.
    pub fn kind(&mut self, inode: u64) -> Option<&'static str> {
        self.look_up(inode)?;
        let seen = self.seen.get(&inode)?;
        Some(kind_within(&self.store, &seen.path, seen.is_directory))
    }

    /// Returns whether `inode` is a directory of the store that contains directory tables.
    pub fn is_level(&mut self, inode: u64) -> bool {
        let found = self.look_up(inode).and_then(|()| self.seen.get(&inode));
        found.is_some_and(|seen| seen.is_directory && is_level(&seen.path) && seen.path.starts_with(&self.store))
    }

    /// Finds the path of `inode` and remembers it. Returns `None` if the file no longer exists.
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

    /// Remembers the path of a directory. Returns whether the directory is in this file system.
    fn remember(&mut self, path: &Path) -> bool {
        let here = fs::symlink_metadata(path).ok().filter(|metadata| Some(metadata.dev()) == self.device);
        here.is_some_and(|metadata| {
            self.seen.entry(metadata.ino()).or_insert(KnownPath { path: path.into(), is_directory: true });
            true
        })
    }

    fn list(&mut self, dir: &Path, depth: u32) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.seen.entry(entry.ino()).or_insert(KnownPath { path, is_directory: false });
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
    fn names_determine_the_kind() {
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
            ("L1/000009/MANIFEST-000001", "tables"), // an entry file whose key has this name
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
        assert_eq!(names.kind(file), Some("tables"), "the kind at the time of the event, before the listing");
        names.batch_read();
        assert_eq!(names.kind(file), Some("log"));
        fs::remove_file(&log).expect("removed");
        names.batch_read();
        assert_eq!(names.kind(file), None);
    }
}
