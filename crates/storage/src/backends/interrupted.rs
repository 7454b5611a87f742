//! Finds a replacement of a directory that was interrupted between two renames; see
//! [`replace_directory`](super::replace_directory).
use crate::{Error, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};
use terrace_vfs::parent;

/// The suffix of a complete directory that replaces `path` by renames.
pub const REPAIRED: &str = "repaired";

/// Returns an error if `path` is missing because a replacement without an exchange of names was
/// interrupted. A store that was created there would hide the repaired one.
pub fn check_interrupted(path: &Path) -> Result<()> {
    interrupted(path).map_or(Ok(()), |(place, repaired)| {
        let text = format!(
            "an interrupted repair of {} has left the repaired store as {}; repeat the repair to finish it",
            place.display(),
            repaired.display()
        );
        Err(Error::Unsupported(text))
    })
}

/// Returns the place of the missing directory `path` and the path of the directory that a
/// replacement was about to rename to it, if there is one.
pub fn interrupted(path: &Path) -> Option<(PathBuf, PathBuf)> {
    if path.exists() {
        return None;
    }
    let target = fs::read_link(path).map_or_else(|_| path.to_owned(), |target| parent(path).join(target));
    let place = fs::canonicalize(parent(&target)).ok()?.join(target.file_name()?);
    let repaired = with_suffix(&place, REPAIRED);
    repaired.is_dir().then_some((place, repaired))
}

/// Returns `PATH.suffix`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
