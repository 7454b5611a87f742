//! An engine that does nothing and stores nothing. A fill with this engine measures the cost of
//! the benchmark driver itself. Reads find nothing, so workloads that check results fail.
//! Workloads that write without an engine use it to get a directory, or a device without a file
//! system.
use crate::target::{
    Change, Engine, EngineBuild, Result, Settings, StoreMedium, Target, bare_device_link, remove_store,
};
use anyhow::Context;
use std::{fs, hint::black_box, os::unix::fs::symlink, path::Path};

/// An engine that does nothing.
#[derive(Debug)]
pub struct Null {
    /// Whether the stores are on a device without a file system.
    pub on_device: bool,
}

impl Engine for Null {
    fn name(&self) -> String {
        if self.on_device { "null:device" } else { "null" }.into()
    }

    fn below(&self) -> StoreMedium {
        if self.on_device { StoreMedium::Device } else { StoreMedium::FileSystem }
    }

    /// If the stores are on a device, creates `dir` as a link to the device.
    fn clear(&self, dir: &Path, _: &Settings) -> Result<()> {
        remove_store(dir)?;
        if !self.on_device {
            return fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()));
        }
        let bare = bare_device_link(dir, &self.name())?;
        symlink(bare.canonicalize()?, dir).with_context(|| format!("link {}", dir.display()))
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        let version = env!("CARGO_PKG_VERSION").into();
        Ok(EngineBuild { version, source: "this repository".into(), hardware_crc: None, assertions: None })
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        vec!["stores nothing".into()]
    }

    fn open(&self, _: &Path, _: &Settings) -> Result<Box<dyn Target>> {
        Ok(Box::new(NullTarget))
    }
}

struct NullTarget;

impl Target for NullTarget {
    fn write(&self, changes: &[Change<'_>], _: bool) -> Result<()> {
        black_box(changes);
        Ok(())
    }

    fn get(&self, _: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        Ok(false)
    }

    fn scan(&self, _: Option<&[u8]>, _: bool, _: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }
}
