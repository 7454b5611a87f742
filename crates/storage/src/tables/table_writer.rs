//! Writes one SSTable into a file outside of any store.
use crate::{
    Error, Process, Result, StorageConfig,
    tables::sst::{Bounds, ByteSink, Writer},
};
use std::path::Path;
use terrace_vfs::{FileSystem, RealFs, WriteFile, parent};

/// The buffer size of writes.
const GATHER_BYTES: usize = 64 << 10;

/// An SSTable file that is being written. If it is dropped before `finish`, it removes the file,
/// except in a forked child process.
pub struct TableFileWriter {
    writer: Option<Writer<Output>>,
    folder: RealFs,
    name: String,
    process: Process,
}

/// A finished SSTable file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedTable {
    /// The file's size in bytes.
    pub bytes: u64,
    /// The first internal key.
    pub smallest: Vec<u8>,
    /// The last internal key.
    pub largest: Vec<u8>,
}

impl TableFileWriter {
    /// Creates the file `path`, which must not exist, in an existing directory.
    pub fn create(path: &Path, setup: &StorageConfig) -> Result<TableFileWriter> {
        let shown = path.display().to_string();
        let nameless = || Error::Unsupported(format!("{shown} is no name for a file"));
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(nameless)?.to_owned();
        let folder = RealFs::new(parent(path));
        let file = folder.create(&name).map_err(|e| Error::io("create", &shown, e))?;
        let output = Output { file, name: shown, gathered: Vec::new(), bytes: 0 };
        let writer = Some(Writer::new(output, setup));
        Ok(TableFileWriter { writer, folder, name, process: Process::current() })
    }

    /// Adds an entry. Internal keys must be added in ascending order, each only once.
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let finished = || Error::Unsupported("the table is finished".into());
        self.check_process()?;
        self.writer.as_mut().ok_or_else(finished)?.add(internal_key, value)
    }

    /// Returns an error in a forked child process, which would otherwise write into its parent's
    /// file or remove it.
    fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(Error::forked(&self.name, self.process)) }
    }

    /// Returns the approximate size so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::bytes)
    }

    /// Ends the table, which must have an entry, and makes it durable.
    pub fn finish(mut self) -> Result<FinishedTable> {
        self.check_process()?;
        let Some(writer) = self.writer.take() else { return Err(Error::Unsupported("the table is finished".into())) };
        let finished = writer.finish().and_then(|(mut output, Bounds { smallest, largest })| {
            output.hand_over()?;
            output.file.sync().map_err(|e| Error::io("sync", &output.name, e))?;
            self.folder.sync_directory().map_err(|e| Error::io("sync directory", self.folder.name(), e))?;
            Ok(FinishedTable { bytes: output.bytes, smallest, largest })
        });
        // After an error the incomplete file is removed. The function returns the first error,
        // whether or not the removal succeeds.
        finished.inspect_err(|_| drop(self.folder.remove(&self.name)))
    }
}

impl Drop for TableFileWriter {
    fn drop(&mut self) {
        if self.writer.take().is_some() && self.process.is_current() {
            let _ = self.folder.remove(&self.name); // best effort: nothing refers to the file yet
        }
    }
}

struct Output {
    file: Box<dyn WriteFile>,
    name: String,
    gathered: Vec<u8>,
    bytes: u64,
}

impl Output {
    fn hand_over(&mut self) -> Result<()> {
        self.file.append(&self.gathered).map_err(|e| Error::io("append to", &self.name, e))?;
        self.bytes += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }
}

impl ByteSink for Output {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHER_BYTES { self.hand_over() } else { Ok(()) }
    }

    fn name(&self) -> &str {
        &self.name
    }
}
