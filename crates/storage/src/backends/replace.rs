//! Replaces a directory by a new one. The old directory is kept under another name until the store
//! is destroyed.
use super::{
    Location, destroy,
    interrupted::{REPLACES, interrupted, is_marked, repaired, with_suffix},
};
use crate::{Error, Result};
use std::{
    fs, io,
    path::{self, Path, PathBuf},
};
use terrace_vfs::{parent, sync_directory};

/// The suffix of the directory that a replacement writes.
const REPAIR: &str = "repair";

/// Replaces the directory `path` by the one that `make` creates. `make` gets the old directory and
/// the path `PATH.repair` of the new one. Then the names of the two directories are exchanged
/// atomically, and the old directory is kept as `PATH.damaged-N`. So at every moment `path` is a
/// complete directory, either the old or the new one. A `PATH.repair` that an interrupted
/// replacement left is also kept as `PATH.damaged-N`, because it may be the old directory.
///
/// Not every system and file system exchanges names. Elsewhere the new directory first gets the
/// name `PATH.repaired`, then the old one is set aside, and `path` is missing until the new one has
/// got its name. If the replacement is interrupted in that moment, the next call finishes it, and
/// an open creates no empty store in its place.
pub fn replace_directory<E: From<Error>>(
    path: &Path,
    make: impl FnOnce(&Path, &Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let failed = |op, error| Error::io(op, path.display().to_string(), error);
    if let Some((place, repaired)) = interrupted(path) {
        let _ = fs::remove_dir(&place); // an empty directory may have taken the name
        return Ok(finish(&repaired, &place).map_err(|error| failed("finish the interrupted repair of", error))?);
    }
    let damaged = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing { what: "store", object: path.display().to_string() },
        _ => Error::io("find", path.display().to_string(), error),
    })?;
    let fresh = with_suffix(&damaged, REPAIR);
    let repaired = repaired(&damaged);
    for left in [fresh.exists().then_some(&fresh), is_marked(&repaired).then_some(&repaired)].into_iter().flatten() {
        set_aside(left, &damaged).map_err(|error| failed("set aside the interrupted repair of", error))?;
    }
    make(&damaged, &fresh)?;
    match terrace_vfs::exchange(&fresh, &damaged) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            Ok(replace_by_renames(&fresh, &damaged).map_err(|error| failed("rename the repaired store to", error))?)
        }
        exchanged => {
            exchanged.map_err(|error| failed("exchange with the repaired store PATH.repair", error))?;
            Ok(set_aside(&fresh, &damaged).map_err(|error| failed("set aside the damaged copy of", error))?)
        }
    }
}

/// Replaces the directory `damaged` by `fresh` where names cannot be exchanged. If a rename after
/// the first fails, `damaged` gets its name back.
fn replace_by_renames(fresh: &Path, damaged: &Path) -> io::Result<()> {
    let (repaired, kept) = (repaired(damaged), free_name(damaged));
    if repaired.exists() {
        let message = format!("{} exists; rename or remove it, then repeat the repair", repaired.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    fs::File::create(fresh.join(REPLACES))?.sync_all()?;
    sync_directory(fresh)?;
    rename(fresh, &repaired)?;
    rename(damaged, &kept).and_then(|()| finish(&repaired, damaged)).inspect_err(|_| {
        let _ = rename(&kept, damaged); // if this fails too, the next repair finishes the replacement
    })
}

/// Gives the complete directory `repaired` the name `place`, and removes its mark.
fn finish(repaired: &Path, place: &Path) -> io::Result<()> {
    rename(repaired, place)?;
    fs::remove_file(place.join(REPLACES))
}

/// Removes the store in the directory `path`, and the directories that [`replace_directory`] has
/// kept as `PATH.damaged-N`. As in LevelDB, a file that is no store is left alone without an error.
pub fn destroy_with_replaced(path: &Path) -> Result<()> {
    let failed = |error| Error::io("find", path.display().to_string(), error);
    let named = fs::canonicalize(path).or_else(|_| path::absolute(path)).map_err(failed)?;
    destroy_directory(path)?;
    kept(&named).iter().try_for_each(|damaged| destroy_directory(damaged))
}

/// Returns the directories `PATH.damaged-N`.
fn kept(path: &Path) -> Vec<PathBuf> {
    let prefix = with_suffix(path, "damaged-");
    let is_kept = |found: &PathBuf| {
        let number = found.as_os_str().as_encoded_bytes().strip_prefix(prefix.as_os_str().as_encoded_bytes());
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let parent = path.parent().and_then(|parent| fs::read_dir(parent).ok());
    parent.into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_kept).collect()
}

/// Removes the store in the directory `path`, and the directory if it is then empty.
fn destroy_directory(path: &Path) -> Result<()> {
    match destroy(&Location::at(path)) {
        Err(Error::Unsupported(_)) if path.is_file() => return Ok(()),
        destroyed => destroyed?,
    }
    if path.is_dir() {
        let _ = fs::remove_dir(path); // fails if the directory has files of others
    }
    Ok(())
}

/// Renames `path` durably to the first name `DAMAGED.damaged-N` that does not exist.
fn set_aside(path: &Path, damaged: &Path) -> io::Result<()> {
    rename(path, &free_name(damaged))
}

/// Returns the first name `DAMAGED.damaged-N` that does not exist.
fn free_name(damaged: &Path) -> PathBuf {
    let free = (1..).map(|n| with_suffix(damaged, &format!("damaged-{n}"))).find(|path| !path.exists());
    free.expect("some number is free")
}

/// Renames a directory durably. Both names have the same parent.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    terrace_vfs::rename(from, to)?;
    sync_directory(parent(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DurabilityMode, StorageConfig,
        backends::{interrupted::check_interrupted, open},
        placement::OpenMode,
    };

    /// Returns a directory with `store`, which contains the file `old`, and `store.repair`, which
    /// contains the file `new`.
    fn directories() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().expect("a folder");
        let store = place.path().canonicalize().expect("it exists").join("store");
        for (path, file) in [(&store, "old"), (&with_suffix(&store, REPAIR), "new")] {
            fs::create_dir(path).and_then(|()| fs::write(path.join(file), "")).expect("made");
        }
        (place, store)
    }

    fn repair(path: &Path) -> Result<()> {
        replace_directory(path, |_, _| panic!("an interrupted replacement is finished, not repeated"))
    }

    #[test]
    fn renames_replace_a_directory_and_keep_the_old_one() {
        let (_place, store) = directories();
        replace_by_renames(&with_suffix(&store, REPAIR), &store).unwrap();
        assert!(store.join("new").exists() && with_suffix(&store, "damaged-1").join("old").exists());
        assert!(!repaired(&store).exists() && !with_suffix(&store, REPAIR).exists());
        assert!(!store.join(REPLACES).exists());
    }

    #[test]
    fn an_interrupted_replacement_is_finished_and_nothing_is_created_before() {
        for by_link in [false, true] {
            let (place, store) = directories();
            let link = place.path().join("link");
            #[cfg(unix)]
            std::os::unix::fs::symlink("store", &link).unwrap();
            let path = if by_link && cfg!(unix) { &link } else { &store };
            check_interrupted(path).unwrap();
            // The steps of `replace_by_renames` up to the last one.
            fs::write(with_suffix(&store, REPAIR).join(REPLACES), "").unwrap();
            fs::rename(with_suffix(&store, REPAIR), repaired(&store)).unwrap();
            check_interrupted(path).unwrap();
            fs::rename(&store, with_suffix(&store, "damaged-1")).unwrap();
            if !by_link {
                fs::create_dir(&store).unwrap(); // as a start script does
            }
            let config = StorageConfig::default();
            let opened = open(&Location::Directory(path.clone()), OpenMode::Create, DurabilityMode::Sync, &config);
            let refused = opened.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains("store.repaired"), "an empty store: {refused}");
            repair(path).unwrap();
            assert!(path.join("new").exists() && !path.join(REPLACES).exists());
            assert!(with_suffix(&store, "damaged-1").join("old").exists());
            check_interrupted(path).unwrap();
        }
    }

    #[test]
    fn an_incomplete_repair_is_never_taken_for_the_store() {
        let (_place, store) = directories();
        fs::remove_dir_all(&store).unwrap();
        assert!(matches!(repair(&store), Err(Error::Missing { .. })));
    }

    #[test]
    fn a_directory_of_the_user_with_that_name_is_left_alone() {
        let (_place, store) = directories();
        let mine = repaired(&store);
        fs::create_dir(&mine).and_then(|()| fs::write(mine.join("000005.ldb"), "mine")).unwrap();
        fs::remove_dir_all(with_suffix(&store, REPAIR)).unwrap();
        let replaced = replace_directory(&store, |_, fresh| {
            fs::create_dir(fresh).map_err(|error| Error::io("create", fresh.display().to_string(), error))
        });
        // Where names cannot be exchanged, the name is needed, and the repair is refused.
        let refused = replaced.err().map(|error| error.to_string());
        assert!(refused.is_none_or(|error| error.contains("store.repaired exists")));
        let by_renames = replace_by_renames(&with_suffix(&store, REPAIR), &store).unwrap_err().to_string();
        assert!(by_renames.contains("store.repaired"), "{by_renames}");
        destroy_with_replaced(&store).unwrap();
        fs::remove_dir_all(&store).unwrap_or_default();
        check_interrupted(&store).unwrap();
        assert!(matches!(repair(&store), Err(Error::Missing { .. })));
        assert_eq!(fs::read(mine.join("000005.ldb")).unwrap(), b"mine");
    }
}
