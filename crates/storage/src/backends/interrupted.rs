//! Finds a replacement of a directory that was interrupted between two renames; see
//! [`replace_directory`](super::replace_directory).
use crate::{Error, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};
use terrace_vfs::parent;

/// The suffix of a complete directory that replaces `path` by renames.
const REPAIRED: &str = "repaired";
/// The file that marks such a directory. A directory of the user may have the same name, but not
/// this file.
pub const REPLACES: &str = "REPLACES";
/// Number of links that are followed one after the other.
const LINKS_MAX: usize = 40;

/// Returns an error if `path` is missing because a replacement without an exchange of names was
/// interrupted. A store that was created there would hide the repaired one.
pub fn check_interrupted(path: &Path) -> Result<()> {
    interrupted(path).map_or(Ok(()), |(place, repaired)| {
        let text = format!(
            "an interrupted repair has left the repaired store as {}; rename it to {}, or repeat the repair in place",
            repaired.display(),
            place.display()
        );
        Err(Error::Unsupported(text))
    })
}

/// Returns the place of the directory `path`, which is missing or empty, and the path of the
/// directory that a replacement was about to rename to it, if there is one.
pub fn interrupted(path: &Path) -> Option<(PathBuf, PathBuf)> {
    if path.join("CURRENT").exists() {
        return None; // the usual case, at the cost of one system call
    }
    let is_missing = fs::read_dir(path).map_or(!path.exists(), |mut entries| entries.next().is_none());
    if !is_missing {
        return None;
    }
    let place = place_of(path)?;
    let repaired = repaired(&place);
    is_marked(&repaired).then_some((place, repaired))
}

/// Returns the path that `path` has after all links, although it need not exist.
fn place_of(path: &Path) -> Option<PathBuf> {
    let mut place: PathBuf = path.components().collect(); // without a slash at the end
    for _ in 0..LINKS_MAX {
        match fs::read_link(&place) {
            Ok(target) => place = parent(&place).join(target),
            Err(_) => return Some(fs::canonicalize(parent(&place)).ok()?.join(place.file_name()?)),
        }
    }
    None
}

/// Returns `PATH.repaired`.
pub fn repaired(path: &Path) -> PathBuf {
    with_suffix(path, REPAIRED)
}

/// Returns whether a replacement has made the directory `PATH.repaired`.
pub fn is_marked(repaired: &Path) -> bool {
    repaired.join(REPLACES).is_file()
}

/// Returns `PATH.suffix`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
