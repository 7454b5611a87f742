//! Files, written and read by system calls.
use super::system;
use crate::file::{ReadFile, WriteFile};
use std::{
    fs::File,
    io::{self, Write},
};
use terrace_device::Descriptor;

/// A file being written.
pub(super) struct Writing(pub File);

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(self.0.try_clone()?)))
    }

    fn descriptor(&self) -> Option<Descriptor<'_>> {
        Some(system::descriptor(&self.0))
    }

    /// Syncs the file: not every system can write the bytes alone.
    fn write_back(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// A file being read.
pub(super) struct Reading(pub File);

impl ReadFile for Reading {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        system::read_exact_at(&self.0, buf, offset)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn forget_cached(&self) -> io::Result<()> {
        system::forget_cached(&self.0)
    }
}
