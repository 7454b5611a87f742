//! Bytes of a store's files, now and at their most.
use super::own::Registration;
use std::{
    fs, io,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Between two looks at the directory, or so many times as long as one takes: thousands of files take a while.
const PERIOD: Duration = Duration::from_millis(100);
const REST: u32 = 20;

/// Watches a directory from `start` to `finish`.
pub struct PeakSpace {
    stop: Sender<()>,
    sampler: JoinHandle<Option<u64>>,
}

impl PeakSpace {
    /// Starts to look at what lies below `dir`.
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

    /// Stops, and tells the most bytes that were seen; `None` if the directory could never be read.
    pub fn finish(self) -> Option<u64> {
        drop(self.stop);
        self.sampler.join().ok().flatten()
    }
}

/// Bytes of all files below `dir`, as their sizes say. A file that vanishes meanwhile counts as nothing.
pub fn space(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(facts) if facts.is_dir() => sum += space(&entry.path())?,
            Ok(facts) => sum += facts.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_for_a_while_is_in_the_peak() {
        let dir = tempfile::tempdir().expect("a directory");
        let (kept, passing) = (dir.path().join("kept"), dir.path().join("passing"));
        fs::write(&kept, [0; 1000]).expect("written");
        fs::write(&passing, [0; 5000]).expect("written");
        let peak = PeakSpace::start(dir.path());
        thread::sleep(PERIOD * 5);
        fs::remove_file(&passing).expect("there");
        assert_eq!((space(dir.path()).expect("read"), peak.finish()), (1000, Some(6000)));
        assert_eq!(PeakSpace::start(&dir.path().join("absent")).finish(), None);
    }
}
