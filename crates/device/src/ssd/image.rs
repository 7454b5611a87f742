//! A virtual drive that stays: a directory with the host's data and the drive's book.
//!
//! ```text
//! data    what the host wrote, in place; a sparse file of the drive's capacity, locked while the drive is in use
//! state   the book when it was last saved: `ssd/ftl/saved.rs`
//! in-use  there while the drive is in use, and after a power cut
//! ```
//! The data never depends on the book. After a power cut the book is that of the last time it was saved, and says so: the
//! data is whole, but what was counted since is lost.
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::drive::Ssd;
use super::ftl::Ftl;
use super::report::Report;
use super::windows::Windows;
use crate::{Error, File, Result};

/// A drive in a directory, in use until [`close`](Self::close).
pub struct Image {
    directory: PathBuf,
    drive: Arc<Ssd>,
    was_cut: bool,
}

impl Image {
    /// Whether a drive could be made in the directory, which need not be there. Touches nothing.
    ///
    /// # Errors
    /// It holds something, or is no directory.
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

    /// Makes the directory of a drive, which need not be new: `ftl` is its book.
    ///
    /// # Errors
    /// The directory holds something, or cannot be made.
    pub fn create(directory: &Path, ftl: &Ftl) -> Result<()> {
        Image::refuse(directory)?;
        fs::create_dir_all(directory).map_err(|source| failed("make", directory, source))?;
        File::create(&directory.join("data"), ftl.profile().capacity_bytes)?;
        save(directory, ftl)
    }

    /// Takes a drive into use.
    ///
    /// # Errors
    /// It is in use already, or its book is damaged, which is then named and left as it is.
    pub fn open(directory: &Path) -> Result<Image> {
        let data = File::open(&directory.join("data"))?; // locks: whoever has the drive may still write its book
        let ftl = book(directory)?;
        let in_use = directory.join("in-use");
        let was_cut = in_use.exists();
        fs::write(&in_use, "").map_err(|source| failed("write", &in_use, source))?;
        Ok(Image { directory: directory.to_owned(), drive: Arc::new(Ssd::with(ftl, Box::new(data))?), was_cut })
    }

    /// What a drive tells of itself, as its book was last saved. It may be in use.
    ///
    /// # Errors
    /// There is no drive, or its book is damaged.
    pub fn look(directory: &Path) -> Result<Report> {
        let ftl = book(directory)?;
        let windows = Windows::new(ftl.profile().capacity_bytes, ftl.counts().clone());
        Ok(Report::new(&ftl, &windows))
    }

    /// The drive.
    pub fn drive(&self) -> &Arc<Ssd> {
        &self.drive
    }

    /// Whether the drive was in use when it was last left, so that its book is older than its data.
    pub fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Saves the book and leaves the drive.
    ///
    /// # Errors
    /// The book could not be saved; that of the last time is still there.
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

/// The old book is there until the new one is durable.
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
