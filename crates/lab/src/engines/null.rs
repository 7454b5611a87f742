//! An engine that does nothing and remembers nothing: a fill of it costs what the driver costs. Reads find nothing, so
//! workloads that expect an answer fail unless answers are not checked. Workloads without an engine find their place through it: a
//! directory, or a device without a file system.
use crate::target::{Below, Build, Change, Engine, Result, Settings, Target, bare_beside, vacate};
use anyhow::Context;
use std::{fs, hint::black_box, os::unix::fs::symlink, path::Path};

/// The engine.
#[derive(Debug)]
pub struct Null {
    /// Whether its place is a device.
    pub on_device: bool,
}

impl Engine for Null {
    fn name(&self) -> String {
        if self.on_device { "null:device" } else { "null" }.into()
    }

    fn below(&self) -> Below {
        if self.on_device { Below::Device } else { Below::FileSystem }
    }

    /// A link to the device, in the place of a directory.
    fn clear(&self, dir: &Path, _: &Settings) -> Result<()> {
        vacate(dir)?;
        if !self.on_device {
            return fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()));
        }
        let bare = bare_beside(dir, &self.name())?;
        symlink(bare.canonicalize()?, dir).with_context(|| format!("link {}", dir.display()))
    }

    fn build(&self) -> std::result::Result<Build, String> {
        let version = env!("CARGO_PKG_VERSION").into();
        Ok(Build { version, source: "this repository".into(), hardware_crc: None, assertions: None })
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        vec!["stores nothing".into()]
    }

    fn open(&self, _: &Path, _: &Settings) -> Result<Box<dyn Target>> {
        Ok(Box::new(Store))
    }
}

struct Store;

impl Target for Store {
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
