//! A pool for the image of a loop device, the file that contains the device's data. A run creates
//! one image and uses it for all its cells (a cell is one engine in one round), one after another.
//!
//! If each cell created and removed its own file, the machine would free and allocate gigabytes of
//! memory and blocks while the next engine is measured. The slowest puts would then measure the
//! machine instead of the engine.
use super::scratch_dir::{dismantle, new_dir};
use anyhow::{Context, Result};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A pool of at most one unused image. Dropping the pool removes the image.
#[derive(Debug, Default)]
pub struct Images(Mutex<Option<PathBuf>>); // the directory that contains the image

impl Images {
    fn kept(&self) -> std::sync::MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an image of `bytes` bytes at the path `image`. If the pool has an image of this
    /// size, the function moves it to this path. Otherwise it creates a new sparse file.
    pub(super) fn take(&self, image: &Path, bytes: u64) -> Result<()> {
        if let Some(dir) = self.kept().take() {
            let kept = dir.join("image");
            let fits = fs::metadata(&kept).is_ok_and(|found| found.len() == bytes);
            if fits {
                fs::rename(&kept, image).with_context(|| format!("move {}", kept.display()))?;
            }
            dismantle(&dir)?;
            if fits {
                return Ok(());
            }
        }
        make(image, bytes)
    }

    /// Moves `image`, which no device uses any more, into the pool. If the pool already has an
    /// image, `image` remains at its path.
    pub(super) fn keep(&self, work: &Path, image: &Path) -> Result<()> {
        let mut kept = self.kept();
        if kept.is_none() {
            let dir = new_dir(work)?;
            fs::rename(image, dir.join("image")).with_context(|| format!("move {}", image.display()))?;
            *kept = Some(dir);
        }
        Ok(())
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.kept().take().map(|dir| dismantle(&dir)) {
            eprintln!("not removed: {error:#}");
        }
    }
}

/// Creates a sparse file of `bytes` at the path `image`.
pub(super) fn make(image: &Path, bytes: u64) -> Result<()> {
    let sized = File::create_new(image).and_then(|file| file.set_len(bytes));
    sized.with_context(|| format!("make {}", image.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_image_is_reused_if_its_size_matches() {
        let work = tempfile::tempdir().expect("a directory");
        let [a, b] = ["a", "b"].map(|name| work.path().join(name));
        let images = Images::default();
        images.take(&a, 1000).expect("a new one");
        assert_eq!(fs::read(&a).expect("it is there"), [0; 1000]);
        fs::write(&a, [7; 1000]).expect("it can be written");
        images.keep(work.path(), &a).expect("it is kept");
        assert!(!a.exists());
        images.take(&b, 1000).expect("the kept one");
        assert_eq!(fs::read(&b).expect("it is there"), [7; 1000]);
        images.keep(work.path(), &b).expect("it is kept");
        images.take(&a, 2000).expect("a new one, which is larger");
        assert_eq!(fs::read(&a).expect("it is there"), [0; 2000]);
        images.keep(work.path(), &a).expect("it is kept");
        fs::write(&b, "another").expect("it can be written");
        images.keep(work.path(), &b).expect("there is one already");
        assert!(b.exists());
        drop((images, fs::remove_file(&b)));
        assert_eq!(fs::read_dir(work.path()).expect("a directory").count(), 0, "no leftovers");
    }
}
