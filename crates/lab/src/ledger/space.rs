//! Measures the size of a store's files: the current size, and the peak during a workload.
use super::own_threads::Registration;
use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Interval between two samples of the directory's size. A sample of a directory with thousands of
/// files takes long, and the interval is then `REST` times the duration of the sample.
const PERIOD: Duration = Duration::from_millis(100);
const REST: u32 = 20;
/// Unit of [`MetadataExt::blocks`] in bytes. It does not depend on the file system's block size.
const BLOCK_BYTES: u64 = 512;

/// Samples the size of a directory from `start` to `finish`.
pub struct PeakSpace {
    stop: Sender<()>,
    sampler: JoinHandle<Option<u64>>,
}

impl PeakSpace {
    /// Starts to sample the files below `dir`.
    pub fn start(dir: &Path) -> PeakSpace {
        let (stop, stopped) = mpsc::channel::<()>();
        let dir = dir.to_owned();
        let sampler = thread::spawn(move || {
            let registration = Registration::of_this_thread();
            let mut most = None;
            loop {
                let start = Instant::now();
                most = most.max(space(&dir).ok());
                registration.iter().for_each(Registration::account);
                let rest = PERIOD.max(start.elapsed() * REST);
                if stopped.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
                    return most.max(space(&dir).ok());
                }
            }
        });
        PeakSpace { stop, sampler }
    }

    /// Stops sampling and returns the largest size; `None` if the directory could not be read in
    /// any sample.
    pub fn finish(self) -> Option<u64> {
        drop(self.stop);
        self.sampler.join().ok().flatten()
    }
}

/// Returns the number of bytes allocated to the files below `dir`. Holes in files are not counted.
/// A file with several links is counted once. A file that disappears during the listing is not
/// counted.
pub fn space(dir: &Path) -> io::Result<u64> {
    add_space(dir, &mut HashSet::new())
}

/// Returns the size in bytes of the block device at `path`. Returns `None` if `path` is a
/// directory.
pub fn device_bytes(path: &Path) -> io::Result<Option<u64>> {
    if fs::metadata(path)?.is_dir() {
        return Ok(None);
    }
    File::open(path)?.seek(SeekFrom::End(0)).map(Some)
}

/// Returns the number of bytes allocated to the files below `dir`. A file with several links is
/// skipped if its inode is in `seen`, because it is already counted. Otherwise its inode is added
/// to `seen`.
fn add_space(dir: &Path, seen: &mut HashSet<(u64, u64)>) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(facts) if facts.is_dir() => sum += add_space(&entry.path(), seen)?,
            Ok(facts) if facts.nlink() > 1 && !seen.insert((facts.dev(), facts.ino())) => {}
            Ok(facts) => sum += facts.blocks() * BLOCK_BYTES,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn temporary_files_are_in_the_peak() {
        let dir = tempfile::tempdir().expect("a directory");
        let (kept, passing) = (dir.path().join("kept"), dir.path().join("passing"));
        fs::write(&kept, [1; 4096]).expect("written");
        fs::write(&passing, [1; 5000]).expect("written");
        let peak = PeakSpace::start(dir.path());
        thread::sleep(PERIOD * 5);
        fs::remove_file(&passing).expect("there");
        assert_eq!((space(dir.path()).expect("read"), peak.finish()), (4096, Some(3 * 4096)));
        assert_eq!(PeakSpace::start(&dir.path().join("absent")).finish(), None);
    }

    #[test]
    fn links_count_once_and_holes_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, below) = (dir.path().join("file"), dir.path().join("below"));
        fs::create_dir(&below).expect("made");
        fs::write(&file, [1; 1 << 20]).expect("written");
        fs::hard_link(&file, below.join("link")).expect("linked");
        File::create(dir.path().join("hole")).expect("made").set_len(1 << 20).expect("grown");
        assert_eq!(space(dir.path()).expect("read"), 1 << 20);
    }
}
