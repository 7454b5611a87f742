//! Which kind of file an inode of the store is.
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use terrace_format::names::FileName;

/// Directories below the store's own that are looked into.
const DEPTH_MAX: u32 = 4;
/// A listing that takes longer, of a store with a file for each pair, is not made for each of them: it takes a tenth of the time.
const LISTING_MAX: Duration = Duration::from_millis(5);
const LISTING_SHARE: u32 = 10;

/// What a file of a store is for, by its path below the store's directory: Terrace's, LevelDB's and RocksDB's names. The words
/// are those of reports.
pub fn kind_of(below: &Path) -> &'static str {
    // A directory table: its pairs have the names of their keys, whatever those are.
    let level = below.parent().and_then(|parent| parent.iter().next()?.to_str()?.strip_prefix('L'));
    if level.is_some_and(|level| level.parse::<u8>().is_ok()) {
        return "tables";
    }
    let name = below.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match FileName::parse(name) {
        Some(FileName::Table(_) | FileName::Bundle(_)) => "tables",
        Some(FileName::Log(_)) => "log",
        Some(FileName::ValueLog(_) | FileName::Values(_)) => "value_log",
        Some(FileName::Manifest(_)) => "manifest",
        Some(FileName::Current | FileName::Marker | FileName::Temporary(_)) => "root",
        Some(FileName::Lock | FileName::InfoLog | FileName::Reserve | FileName::Unsynced) => "other",
        None if name == "IDENTITY" => "root",
        None if name.ends_with(".log") => "log",
        None if name.ends_with(".blob") => "value_log",
        None => "other",
    }
}

/// Kinds by inode, found by listing the store's directory when an inode is new.
///
/// File systems reuse the number of a deleted file at once, so a remembered path is looked at again before it is used. Where listing takes
/// long, a file that is not under its path any more is for what it was, until the next listing.
pub struct Names {
    dir: PathBuf,
    /// Of the file system: numbers of another one's files mean nothing here.
    device: Option<u64>,
    seen: HashMap<u64, Seen>,
    /// Until then no directory is listed for a file that had a path.
    rests_until: Option<Instant>,
}

struct Seen {
    path: PathBuf,
    is_directory: bool,
}

impl Names {
    /// Of the store in `dir`.
    pub fn new(dir: &Path) -> Names {
        Names { dir: dir.to_owned(), device: None, seen: HashMap::new(), rests_until: None }
    }

    /// The kind of `inode`, `directory` for directories; `None` if the store has no such file (any more).
    pub fn kind(&mut self, inode: u64) -> Option<&'static str> {
        if let Some(kind) = self.remembered(inode) {
            return Some(kind);
        }
        if self.rests_until.is_some_and(|until| Instant::now() < until)
            && let Some(seen) = self.seen.get(&inode)
        {
            return self.kind_of(seen);
        }
        // Twice, because a file that is renamed meanwhile may be missed, or be listed under the name that it had.
        (0..2).find_map(|_| {
            self.list_all();
            self.remembered(inode)
        })
    }

    fn list_all(&mut self) {
        let began = Instant::now();
        self.seen.clear();
        self.device = fs::metadata(&self.dir).ok().map(|metadata| metadata.dev());
        self.list(&self.dir.clone(), 0);
        if let Some(parent) = self.dir.parent() {
            self.remember(parent.to_owned());
        }
        self.remember(self.dir.clone());
        let took = began.elapsed();
        self.rests_until = (took > LISTING_MAX).then(|| began + took * LISTING_SHARE);
    }

    fn remembered(&self, inode: u64) -> Option<&'static str> {
        let seen = self.seen.get(&inode)?;
        let metadata = fs::symlink_metadata(&seen.path).ok()?;
        let is_same = (metadata.ino(), Some(metadata.dev())) == (inode, self.device);
        if is_same && metadata.is_dir() == seen.is_directory { self.kind_of(seen) } else { None }
    }

    fn kind_of(&self, seen: &Seen) -> Option<&'static str> {
        if seen.is_directory { Some("directory") } else { seen.path.strip_prefix(&self.dir).ok().map(kind_of) }
    }

    /// A directory.
    fn remember(&mut self, path: PathBuf) {
        let here = fs::metadata(&path).ok().filter(|metadata| Some(metadata.dev()) == self.device);
        if let Some(metadata) = here {
            self.seen.insert(metadata.ino(), Seen { path, is_directory: true });
        }
    }

    fn list(&mut self, dir: &Path, depth: u32) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let (path, is_directory) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
            if depth < DEPTH_MAX && is_directory {
                self.list(&path, depth + 1);
            }
            self.seen.insert(entry.ino(), Seen { path, is_directory });
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
            ("000009.vals", "value_log"),
            ("000009.bundle", "tables"),
            ("L0/000009/META", "tables"),
            ("L1/000009/MANIFEST-000001", "tables"), // a pair whose key is so called
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
        names.rests_until = Some(Instant::now() + Duration::from_secs(3600));
        assert_eq!(names.kind(file), Some("tables"), "listing takes long");
        names.rests_until = Some(Instant::now());
        assert_eq!(names.kind(file), Some("log"));
        fs::remove_file(&log).expect("removed");
        assert_eq!(names.kind(file), None);
    }
}
