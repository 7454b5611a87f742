//! The location of a store in a crash test: its device, mount point and engine. Each request to a
//! worker process contains it.
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Location of a device, and the name of the engine that uses it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoreLocation {
    /// The file that represents the served device, or the node of a block device.
    pub image: PathBuf,
    /// An empty directory that becomes the mount point.
    pub mount_point: PathBuf,
    /// Name of the engine, in the form of `--engine`.
    pub engine: String,
    /// Options of the mount.
    pub options: String,
}
