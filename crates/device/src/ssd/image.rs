//! A persistent virtual SSD: a directory with the host's data and the drive's state.
//!
//! ```text
//! data    the host's data, in place; a sparse file of the drive's capacity, locked while in use
//! state   the last saved state: `ssd/ftl/saved.rs`
//! in-use  exists while the drive is in use, and after a power cut
//! ```
//! The data never depend on the state. After a power cut the data are complete, and the state is
//! the last saved one. The changes of the counters since the last save are lost, and the drive
//! reports this loss.
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::drive::Ssd;
use super::ftl::Ftl;
use super::report::Report;
use super::windows::Windows;
use crate::{Error, File, Result};

/// A drive in a directory. The drive is in use until [`close`](Self::close).
pub struct Image {
    directory: PathBuf,
    drive: Arc<Ssd>,
    was_cut: bool,
}

impl Image {
    /// Checks whether a drive can be created in the directory, which need not exist. Changes
    /// nothing.
    ///
    /// # Errors
    /// If the directory is not empty or is not a directory.
    pub fn refuse(directory: &Path) -> Result<()> {
        match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(failed("make a drive in", directory, source)),
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => Err(failed("make a drive in", directory, io::ErrorKind::DirectoryNotEmpty.into())),
            },
        }
    }

    /// Creates a drive with state `ftl` in the directory, which may exist.
    ///
    /// # Errors
    /// If the directory is not empty or cannot be created.
    pub fn create(directory: &Path, ftl: &Ftl) -> Result<()> {
        Image::refuse(directory)?;
        fs::create_dir_all(directory).map_err(|source| failed("make", directory, source))?;
        File::create(&directory.join("data"), ftl.profile().capacity_bytes)?;
        save(directory, ftl)
    }

    /// Opens a drive for use.
    ///
    /// # Errors
    /// If the drive is in use, or if its state is corrupt. The error names the corrupt file, which
    /// is left unchanged.
    pub fn open(directory: &Path) -> Result<Image> {
        // Opening `data` takes a lock. It must be taken before the state is read, because a process
        // that still uses the drive may save a newer state.
        let data = File::open(&directory.join("data"))?;
        let ftl = book(directory)?;
        let in_use = directory.join("in-use");
        let was_cut = in_use.exists();
        fs::write(&in_use, "").map_err(|source| failed("write", &in_use, source))?;
        Ok(Image { directory: directory.to_owned(), drive: Arc::new(Ssd::with(ftl, Box::new(data))?), was_cut })
    }

    /// Returns the drive's report from its last saved state. The drive may be in use.
    ///
    /// # Errors
    /// If there is no drive or its state is corrupt.
    pub fn look(directory: &Path) -> Result<Report> {
        let ftl = book(directory)?;
        let windows = Windows::new(ftl.profile().capacity_bytes, ftl.counts().clone());
        Ok(Report::new(&ftl, &windows))
    }

    /// Returns the drive.
    pub fn drive(&self) -> &Arc<Ssd> {
        &self.drive
    }

    /// Returns whether the last use of the drive ended without a save. The saved state is then
    /// older than the data.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Saves the drive's state and ends the use of the drive.
    ///
    /// # Errors
    /// If the state cannot be saved. The previously saved state then remains.
    pub fn close(self) -> Result<()> {
        save(&self.directory, &self.drive.ftl())?;
        let in_use = self.directory.join("in-use");
        fs::remove_file(&in_use).map_err(|source| failed("remove", &in_use, source))
    }
}

fn book(directory: &Path) -> Result<Ftl> {
    let path = directory.join("state");
    let state = fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => failed("find a virtual drive in", directory, source),
        _ => failed("read", &path, source),
    })?;
    Ftl::restore(&state).map_err(|why| Error::Malformed { what: path.display().to_string(), why })
}

/// Saves the state of `ftl`. The old state remains until the new state is durable.
fn save(directory: &Path, ftl: &Ftl) -> Result<()> {
    let (path, fresh) = (directory.join("state"), directory.join("state.new"));
    let write = || {
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&ftl.save())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        fs::File::open(directory)?.sync_all()
    };
    write().map_err(|source| failed("save", &path, source))
}

fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    Error::Io { what: format!("{what} {}", path.display()), source }
}
