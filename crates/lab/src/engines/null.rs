//! An engine that does nothing and remembers nothing: a fill of it costs what the driver costs. Reads find nothing, so
//! workloads that expect an answer fail unless answers are not checked.
use crate::target::{Build, Change, Engine, Result, Settings, Target};
use std::{hint::black_box, path::Path};

/// The engine and its store.
#[derive(Debug)]
pub struct Null;

impl Engine for Null {
    fn name(&self) -> String {
        "null".into()
    }

    fn build(&self) -> std::result::Result<Build, String> {
        let version = env!("CARGO_PKG_VERSION").into();
        Ok(Build { version, source: "this repository".into(), hardware_crc: None, assertions: None })
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        vec!["stores nothing".into()]
    }

    fn open(&self, _: &Path, _: &Settings) -> Result<Box<dyn Target>> {
        Ok(Box::new(Null))
    }
}

impl Target for Null {
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
