//! How the files that a store may have open, which are its share of those of the process (`shares.rs`), are shared out among its parts.
//!
//! ```text
//! 3/4   tables, and segments or pairs; what they leave because there are fewer is added to the rest
//! 1/4   of this an eighth each:
//!         files that wait to be durable       at half of it a batch begins, at the whole who brings more waits for one
//!         files of the batch that is made
//!         files of closed logs                at this a commit is forced
//!         those closed meanwhile              at this writers wait for it
//!         files of builds under way           a build hands over what it has at a quarter of it, or when all that there are hold the whole
//!       and what is left is for open logs and tables, and for whoever else is in the process
//! ```
use crate::StorageConfig;
use terrace_format::{Layout, TableForm, Values};
use terrace_vfs::FileSystem;

/// The number of files that may be open at once on `fs`, where each takes a descriptor of the process.
pub(super) fn open_files_max(fs: &dyn FileSystem) -> Option<u64> {
    fs.capacity()?.open_files_max()
}

/// `setup` with no more tables open than there are descriptors for.
pub(super) fn for_tables(setup: &StorageConfig, layout: Layout, files_max: Option<u64>) -> StorageConfig {
    let mapped = setup.allow_mmap_reads && layout.tables != TableForm::Bundled; // then the file is closed
    let kinds = u64::from(!mapped) + u64::from(layout.values == Values::Log || layout.tables == TableForm::Directory);
    let mut within = setup.clone();
    if let Some(most) = files_max.and_then(|files| (files - files / 4).checked_div(kinds)) {
        within.max_open_files = within.max_open_files.min(usize::try_from(most).unwrap_or(usize::MAX));
    }
    within
}

/// How many files may be open because they wait to be durable, and as many logs because the tables that replace them do.
pub(super) fn for_waiting(setup: &StorageConfig, files_max: Option<u64>) -> usize {
    let waiting = |files: u64| {
        let tables = (files - files / 4).min((setup.max_open_files as u64).saturating_mul(2)); // of two kinds at most
        usize::try_from((files - tables) / 8).unwrap_or(usize::MAX)
    };
    files_max.map_or(usize::MAX, waiting).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_shared_out() {
        let of = |max_open_files, files| {
            let setup = StorageConfig { max_open_files, ..StorageConfig::default() };
            let tables = for_tables(&setup, Layout::default(), files).max_open_files;
            (tables, for_waiting(&setup, files))
        };
        assert_eq!(of(990, Some(1024)), (768, 32));
        assert_eq!(of(990, Some(20_000)), (990, 2252));
        assert_eq!(of(16, Some(150)), (16, 14));
        assert_eq!(of(16, Some(8)), (6, 2));
        assert_eq!(of(0, Some(1024)), (0, 128));
        assert_eq!(of(usize::MAX, Some(u64::MAX)).1, (1 << 59) - 1);
        assert_eq!(of(990, None), (990, usize::MAX));
    }
}
