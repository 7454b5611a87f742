//! Paths of directories.
use std::path::Path;

/// Returns the directory that contains `path`.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
