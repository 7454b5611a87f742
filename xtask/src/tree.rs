//! The list of the repository's files. It is read from the directory tree and not from git, so
//! that it also works in an unpacked tarball.
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns every file below `root`, relative to it, sorted, without version control and build
/// directories.
pub fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if !path.is_dir() || path.is_symlink() {
                found.push(path.strip_prefix(root).expect("found below the root").to_owned());
            } else if !is_skipped(&path) {
                waiting.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a directory is `.git` or a build directory. Cargo marks its build directories
/// with `CACHEDIR.TAG`.
fn is_skipped(directory: &Path) -> bool {
    directory.ends_with(".git") || directory.join("CACHEDIR.TAG").exists()
}

/// Returns the files below `root` with extension `extension`, and their text.
pub fn texts(root: &Path, extension: &str) -> Result<Vec<(PathBuf, String)>> {
    let wanted = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root.join(&path)).with_context(|| path.display().to_string())?;
        Ok((path, text))
    };
    files(root)?.into_iter().filter(wanted).map(read).collect()
}
