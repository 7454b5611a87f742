//! Divides the file descriptors that a store may use among the parts of the store. `shares.rs`
//! divides the descriptors of the process among its open stores.
//!
//! Three quarters are for open tables, and for open value-log segments or value files of directory
//! tables. Descriptors that these do not need are added to the last quarter. The last quarter is
//! divided into eighths:
//!
//! ```text
//! one eighth each for                     limits
//!   files that wait to be durable         When half of the eighth is used, a batch sync begins.
//!                                         When all of it is used, a job waits for a batch sync.
//!   files of the running batch sync
//!   closed WALs                           When all of it is used, a batch sync is forced.
//!   WALs closed during that batch sync    When all of it is used, writers wait until it ends.
//!   outputs of running jobs               A job passes its finished files to the durability
//!                                         tracker when it uses a quarter of the eighth, or
//!                                         when all jobs together use all of it.
//! three eighths for                       open WALs, tables that are being opened, and other code
//!                                         of the process
//! ```
use crate::StorageConfig;
use terrace_format::{Layout, TableForm, Values};
use terrace_vfs::FileSystem;

/// Returns the number of files that may be open at the same time on `fs`; `None` if open files
/// take no descriptors of the process.
pub(super) fn open_files_max(fs: &dyn FileSystem) -> Option<u64> {
    fs.capacity()?.open_files_max()
}

/// Returns `setup` with `max_open_files` limited to the number of descriptors for open tables.
pub(super) fn for_tables(setup: &StorageConfig, layout: Layout, files_max: Option<u64>) -> StorageConfig {
    let kinds = 1 + u64::from(layout.values == Values::Log || layout.tables == TableForm::Directory);
    let mut within = setup.clone();
    if let Some(most) = files_max.and_then(|files| (files - files / 4).checked_div(kinds)) {
        within.max_open_files = within.max_open_files.min(usize::try_from(most).unwrap_or(usize::MAX));
    }
    within
}

/// Returns one eighth of the last quarter of the descriptors (see the module's documentation), but
/// at least 2. Two limits use this number: the number of files that stay open because they wait to
/// become durable, and the number of closed WALs that wait until their entries are durable in
/// tables.
pub(super) fn for_waiting(setup: &StorageConfig, files_max: Option<u64>) -> usize {
    let waiting = |files: u64| {
        // A store keeps two kinds of files open for reads: tables, and in addition value-log
        // segments or value files. `max_open_files` limits each of the two kinds.
        let tables = (files - files / 4).min((setup.max_open_files as u64).saturating_mul(2));
        usize::try_from((files - tables) / 8).unwrap_or(usize::MAX)
    };
    files_max.map_or(usize::MAX, waiting).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_divided_among_the_parts_of_a_store() {
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
        assert_eq!(of(usize::MAX, Some(u64::MAX)).1, usize::try_from((1_u64 << 59) - 1).unwrap_or(usize::MAX));
        assert_eq!(of(990, None), (990, usize::MAX));
    }
}
