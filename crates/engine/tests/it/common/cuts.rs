//! Simulated power cuts of a directory or a device in memory. First a history is written on a file
//! system that records all its steps. Then the power is cut after each step: each disk image that
//! such a cut can leave is opened as a store, and the store's contents are judged.
#![allow(dead_code, reason = "other programs include this file, too, and use a part")]
use super::history::{Collected, History, Tracker, contents, storage, tight};
use std::sync::Arc;
use terrace::{Db, Options, WriteOptions, check_on};
use terrace_sim::{Medium, Recorder, Remains, Rng, Rules};
use terrace_storage::backends::files::fs::FileSystem;

/// The number of actions of a history.
const ACTIONS: usize = 260;

/// The parameters of one history and of its power cuts. The same parameters produce the same crash
/// states.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// The layout of the store. The sizes of its memtables and tables are small in any case.
    pub options: Options,
    /// Whether the keys are in several column families.
    pub families: bool,
    pub tracker: Tracker,
    pub medium: Medium,
    pub history: u64,
    /// The count of crash states that are tried for each step.
    pub seeds: u64,
}

/// A crash state in which a promise of the store is broken.
#[derive(Debug)]
pub struct Broken {
    /// The seeds and step numbers that reproduce the crash state, as text.
    pub place: String,
    pub reason: String,
    /// The list of the files of the crash state.
    pub image: String,
}

/// Returns the parameters of a campaign: one history for each combination of durability tracker
/// and medium.
pub fn histories(options: &Options, trackers: &[Tracker], history: u64, seeds: u64) -> Vec<Cuts> {
    let (ext4, posix) = (Medium::Directory(Rules::Ext4), Medium::Directory(Rules::Posix));
    let media = [ext4, posix, Medium::Device, Medium::Split(Rules::Posix)];
    let in_folders = options.tables.is_some_and(|tables| tables.name() == "directory");
    let pairs = trackers.iter().flat_map(|&tracker| media.map(|medium| (tracker, medium)));
    pairs
        .filter(|(tracker, medium)| tracker.goes_with(*medium)) // other combinations are refused
        // Directory tables cannot be stored on a device.
        .filter(|(_, medium)| matches!(medium, Medium::Directory(_)) || !in_folders)
        .map(|(tracker, medium)| {
            // Each state on a device takes far more time than in a directory.
            let seeds = if matches!(medium, Medium::Directory(_)) { seeds } else { seeds.div_ceil(8) };
            Cuts { options: options.clone(), families: false, tracker, medium, history, seeds }
        })
        .collect()
}

/// Returns at most `max` of the steps from 0 to `last`, evenly spread; the last step is always
/// included. The distance between two steps is odd, so that the seeds derived from them have all
/// remainders modulo 8.
pub fn spread(last: usize, max: usize) -> impl Iterator<Item = usize> {
    let stride = (last + 1).div_ceil(max.max(1)) | 1;
    (last % stride..=last).step_by(stride)
}

impl Cuts {
    /// Writes the history, and judges the crash states after at most `steps_max` of its steps.
    /// Calls `seen` with the outcome of each crash state; if `seen` returns false, the function
    /// stops. Returns how much value-log garbage collection did in the history.
    pub fn judge_all(&self, steps_max: usize, seen: &mut dyn FnMut(Option<Broken>) -> bool) -> Collected {
        // In every other history the store may keep only few files open. A table build then gives
        // each finished file to the durability tracker immediately, and two closed WALs are enough
        // to force a commit of pending edits.
        let recorder = match self.medium.recorder() {
            Recorder::Directory(disk) if self.history % 2 == 1 => Recorder::Directory(disk.with_open_files_max(16)),
            recorder => recorder,
        };
        let steps = || recorder.steps();
        let mut history = History::new(
            (self.options.clone(), self.families),
            self.history,
            self.tracker,
            recorder.file_system(),
            &steps,
        );
        history.run(ACTIONS);
        for step in spread(recorder.steps(), steps_max) {
            for seed in (step as u64..).take(self.seeds as usize) {
                let image = recorder.power_loss(step, seed);
                let broken = self.judge(&history, &image, step, seed).err().map(|reason| Broken {
                    place: format!(
                        "{:?} {:?} history {} step {step} seed {seed}",
                        self.tracker, self.medium, self.history
                    ),
                    reason,
                    image: format!("{image:?}"),
                });
                if !seen(broken) {
                    return history.collected;
                }
            }
        }
        history.collected
    }

    fn options(&self) -> Options {
        tight(self.options.clone())
    }

    fn open(&self, fs: &Arc<dyn FileSystem>) -> terrace::Result<Db> {
        Db::open_manual(storage(fs, Tracker::Sync.make(0), &self.options())?, self.options())
    }

    /// Opens the disk image of a power cut and judges it. For some seeds it does more: the store
    /// must accept writes, pass a deep check, and survive a second power cut during or after its
    /// recovery.
    fn judge(&self, history: &History<'_>, image: &Remains, step: usize, seed: u64) -> Result<(), String> {
        let fs = image.file_system();
        let db = self.open(&fs).map_err(|e| format!("OPEN: {e}"))?;
        history.judge(step, &db)?;
        if seed % 8 == 1 {
            let mut wanted = contents(&db)?;
            db.put_with("after", "the crash", WriteOptions::synced()).map_err(|e| format!("WRITE: refused: {e}"))?;
            drop(db);
            let options = self.options();
            let store = storage(&fs, Tracker::Sync.make(0), &options).map_err(|e| format!("OPEN: to check: {e}"))?;
            let report = check_on(&*store, &options, true).map_err(|e| format!("CHECK: {e}"))?;
            if !report.problems.is_empty() {
                return Err(format!("CHECK: finds {:?}", report.problems));
            }
            drop(store);
            let db = self.open(&fs).map_err(|e| format!("OPEN: again: {e}"))?;
            wanted.insert(b"after".to_vec(), b"the crash".to_vec());
            if contents(&db)? != wanted {
                return Err("WRITE: a synced write after recovery is lost, or another came back".into());
            }
        }
        if seed % 8 == 2 { self.cut_again(history, image, step, seed) } else { Ok(()) }
    }

    /// Recovers the store of the disk image on a file system that records all steps, and cuts the
    /// power a second time, during this recovery.
    fn cut_again(&self, history: &History<'_>, image: &Remains, step: usize, seed: u64) -> Result<(), String> {
        let recorder = self.medium.record(image);
        let fs = recorder.file_system();
        let recovered = history.judge(step, &self.open(&fs).map_err(|e| format!("OPEN: {e}"))?)?;
        let end = recorder.steps();
        let second = Rng::of(seed, step as u64).below(end + 1);
        for (cut, at_least) in [(second, 0), (end, recovered)] {
            let again = recorder.power_loss(cut, seed).file_system();
            let db = self.open(&again).map_err(|e| format!("OPEN: after a second cut at {cut} of {end}: {e}"))?;
            let applied = history.judge(step, &db).map_err(|e| format!("{e} (second cut at {cut} of {end})"))?;
            if applied < at_least {
                return Err(format!(
                    "LOST: recovery showed {recovered} batches, after a second cut there are {applied}"
                ));
            }
        }
        Ok(())
    }
}
