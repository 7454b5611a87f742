//! The durability mode of a store: resolves the mode `inherit`, and creates the tracker of the
//! mode within the limit of descriptors.
use super::{descriptors, files::root};
use crate::{
    DurabilityMode, Result, StorageConfig, backends::layout::decode_format_file, durability::DurabilityTracker,
};
use std::{path::Path, sync::Arc};
use terrace_vfs::{FileSystem, RealFs};

impl DurabilityMode {
    /// Resolves `Inherit` for the store in `fs`, which may exist or be new. Any other mode is
    /// returned as it is.
    fn resolved(self, fs: &dyn FileSystem) -> Result<DurabilityMode> {
        if self != DurabilityMode::Inherit {
            return Ok(self);
        }
        let is_new = !root::is_there(fs)?;
        let text = if is_new { None } else { root::read_marker_of(fs)? };
        let in_batches =
            text.map(|text| decode_format_file(&fs.name(), &text)).transpose()?.is_some_and(|marker| marker.in_batches);
        Ok(if is_new || in_batches { DurabilityMode::Auto } else { DurabilityMode::Sync })
    }

    /// Returns the durability mode that `self` means for the store in directory `path`. The store
    /// may exist or be new. `Inherit` becomes `Auto` for a new store, and for a store whose format
    /// file requests it. For any other store it becomes `Sync`. Any other mode is returned as it
    /// is.
    ///
    /// # Errors
    /// If the format file cannot be read, or has a feature that this version does not know.
    pub fn at(self, path: &Path) -> Result<DurabilityMode> {
        self.resolved(&RealFs::new(path))
    }

    /// Returns the durability tracker of a store in `fs`.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) with the reason why the file system
    /// cannot keep the promise of the mode.
    pub fn tracker(self, fs: &dyn FileSystem, setup: &StorageConfig) -> Result<Arc<dyn DurabilityTracker>> {
        let files_max = descriptors::for_waiting(setup, descriptors::open_files_max(fs));
        self.resolved(fs)?.tracker_for(fs, setup.durability_interval, files_max)
    }
}
