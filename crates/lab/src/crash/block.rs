//! The crash-test campaign on a recorded block device, which is in memory and records all
//! requests. A worker process fills a store on a real file system on that device, or on the device
//! itself. Then several worker processes in parallel mount, open and judge the disk contents that
//! a power cut could have left (crash states).
use super::{
    Campaign, NegativeControl, Tally,
    crash_state::{CrashState, CrashStateSelector},
    saved_state::SavedState,
    script::Script,
    size::Size,
    station::{Station, SwappableDevice},
    worker::{Task, WorkerRequest, WorkerResponse},
};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};
use terrace_device::{
    Memory,
    record::{Kept, Past, Recorder, State},
    serve::{NoDesk, new_directory},
};

/// Minimum number of crash states that are judged per history (the batches that one seed
/// determines) before the next history starts.
const STATES_PER_HISTORY_MIN: u64 = 400;
/// Number of flushes before a power cut that the device ignores in the negative control
/// [`NegativeControl::IgnoredFlushes`].
pub(super) const IGNORED_FLUSHES: usize = 4;
/// Maximum number of failing crash states that a campaign saves to files. More files would add
/// little information.
pub(super) const KEPT_MAX: u64 = 5;
/// The judge opens the store a second time in one of this many crash states.
const REOPEN_EVERY: u64 = 4;

/// Runs a campaign (a series of crash tests) on a recorded device. `worker` returns the command of
/// a worker process, which must call [`serve`](super::worker::serve). `watch` receives the tally
/// repeatedly while crash states are judged, and returns false to stop the campaign.
///
/// # Errors
/// This machine lacks a requirement, or a store cannot be filled. A crash state that violates the
/// durability contract is counted in the tally and is not an error.
pub fn run(
    campaign: &Campaign,
    worker: &(dyn Fn() -> Command + Sync),
    watch: &mut dyn FnMut(&Tally) -> bool,
) -> Result<Tally> {
    let (mut tally, start, mut first) = (Tally::default(), Instant::now(), None);
    for history in 0.. {
        let left = campaign.states.map_or(u64::MAX, |states| states.saturating_sub(tally.states));
        let is_late = |first: Instant| campaign.time.is_some_and(|time| first.elapsed() >= time);
        if left == 0 || tally.is_stopped || first.is_some_and(is_late) {
            break;
        }
        let script = campaign.script(history, Size::Small);
        let record = Record::make(campaign, script, worker)?;
        let past = Arc::new(Past::open(&record.0)?);
        let begin = *first.get_or_insert_with(Instant::now);
        let job = Job { campaign, worker, past, script, begin, states: left };
        tally.histories += 1;
        tally.events += job.past.events().len() as u64;
        job.run(&mut tally, watch)?;
    }
    tally.seconds = start.elapsed().as_secs_f64();
    Ok(tally)
}

/// Judges one saved crash state again. The inner result is the count of batches in the store, or
/// the text of the violation.
pub fn replay(
    file: &Path,
    work: &Path,
    worker: &(dyn Fn() -> Command + Sync),
) -> Result<std::result::Result<u64, String>> {
    let state = SavedState::read(file)?;
    let past = Arc::new(Past::open(&state.record)?);
    let mut station = JudgeStation::start(&past, work, worker)?;
    station.judge(&past, &state.engine, state.script(), &state.choice, true)
}

/// Returns ext4's mount options. ext4 commits its journal every second, so that even a short
/// history contains several journal commits.
pub(super) fn mount_options(broken: Option<NegativeControl>) -> &'static str {
    if broken == Some(NegativeControl::NoBarrier) { "commit=1,barrier=0" } else { "commit=1" }
}

/// The file with the recorded requests of a device. The file has its own directory, which is
/// removed on drop. If this process is killed, `terrace ssd cleanup` removes the directory.
pub(super) struct Record(PathBuf);

impl Record {
    /// Creates the directory for the file.
    pub fn in_new_directory(work: &Path) -> Result<Record> {
        Ok(Record(new_directory(work)?.join("record")))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Fills a store with the batches of `script`, and records the requests that the device of the
    /// store receives.
    fn make(campaign: &Campaign, script: Script, worker: &dyn Fn() -> Command) -> Result<Record> {
        let record = Record::in_new_directory(&campaign.work)?;
        let recorder = Arc::new(Recorder::new(Arc::new(Memory::new(script.size.device_bytes())?), &record.0)?);
        let mut station = Station::start(recorder.clone(), recorder.clone(), &campaign.work, worker())?;
        let broken = campaign.control;
        for task in [Task::Format, Task::Fill { from: 1, control: Some(station.control()), broken }] {
            let place = station.place(&campaign.engine, mount_options(broken));
            let order = WorkerRequest { place, script, task };
            match station.run_request(&order).with_context(|| format!("fill a store of {}", campaign.engine))? {
                WorkerResponse::Applied(_) => {}
                answer => bail!("fill a store of {}: {answer:?}", campaign.engine),
            }
        }
        drop(station);
        recorder.finish()?;
        Ok(record)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

/// The crash states of one history. Several stations judge them in parallel. A station is a served
/// device with a worker process.
struct Job<'a> {
    campaign: &'a Campaign,
    worker: &'a (dyn Fn() -> Command + Sync),
    past: Arc<Past>,
    script: Script,
    /// Time at which the campaign started to judge.
    begin: Instant,
    /// Maximum number of crash states to judge.
    states: u64,
}

impl Job<'_> {
    fn run(&self, tally: &mut Tally, watch: &mut dyn FnMut(&Tally) -> bool) -> Result<()> {
        let ignored = if self.campaign.control == Some(NegativeControl::IgnoredFlushes) { IGNORED_FLUSHES } else { 0 };
        let chooser = CrashStateSelector::new(self.past.events(), ignored, self.script.seed);
        let chooser = chooser.context("the record has no changes after a mark")?;
        let all = chooser.states_of_all_subsets();
        let (subsets, end) = (all / 2, self.states.min(STATES_PER_HISTORY_MIN.max(all)));
        tally.subsets += subsets;
        let shared = SharedProgress {
            end,
            subsets,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            tally: Mutex::new(tally),
        };
        thread::scope(|scope| {
            let stations = (0..self.campaign.workers).map(|_| {
                scope.spawn(|| {
                    let done = self.judge_some(&chooser, &shared);
                    if done.is_err() {
                        shared.stop.store(true, Relaxed);
                    }
                    done
                })
            });
            let stations: Vec<_> = stations.collect();
            while !stations.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(std::time::Duration::from_millis(20));
                let is_late = self.campaign.time.is_some_and(|time| self.begin.elapsed() >= time);
                let mut tally = shared.tally();
                tally.is_stopped |= !watch(&tally);
                if is_late || tally.is_stopped {
                    shared.stop.store(true, Relaxed);
                }
            }
            stations.into_iter().try_for_each(|station| station.join().expect("a station panicked"))
        })
    }

    /// Judges crash states on one station until none are left. A station is a served device with a
    /// worker process. Each station has a thread that runs this function.
    fn judge_some(&self, chooser: &CrashStateSelector<'_>, shared: &SharedProgress<'_>) -> Result<()> {
        let mut station = JudgeStation::start(&self.past, &self.campaign.work, self.worker)?;
        while !shared.stop.load(Relaxed) {
            let number = shared.next.fetch_add(1, Relaxed);
            if number >= shared.end {
                break;
            }
            let choice = chooser.choice(number);
            let again = number.is_multiple_of(REOPEN_EVERY);
            let verdict = station.judge(&self.past, &self.campaign.engine, self.script, &choice, again)?;
            let is_new = {
                let mut tally = shared.tally();
                tally.subsets_judged += u64::from(chooser.subset(number).is_some_and(|nth| nth < shared.subsets));
                tally.count(&verdict) <= KEPT_MAX
            };
            if let (Err(reason), Some(dir), true) = (&verdict, &self.campaign.keep, is_new) {
                let engine = &self.campaign.engine;
                let file = SavedState::write(dir, self.past.path(), engine, self.script, (number, &choice), reason)?;
                shared.tally().kept.push(file);
            }
            if !station.station.is_usable() {
                station = JudgeStation::start(&self.past, &self.campaign.work, self.worker)?;
            }
        }
        Ok(())
    }
}

/// Progress that the stations of a job share.
struct SharedProgress<'a> {
    /// Number of the next crash state that a station will take.
    next: AtomicU64,
    /// Number of the first crash state that no longer belongs to this history.
    end: u64,
    /// How many crash states are selected to cover all subsets of the requests in small windows. A
    /// window is the requests between two flushes. A small window has at most six requests.
    subsets: u64,
    stop: AtomicBool,
    /// The counts of the campaign. The lock is held only to update them, never while a crash state
    /// is judged.
    tally: Mutex<&'a mut Tally>,
}

impl<'a> SharedProgress<'a> {
    fn tally(&self) -> MutexGuard<'_, &'a mut Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A station that judges crash states. The content of its device is replaced for each crash state.
struct JudgeStation {
    slot: Arc<SwappableDevice>,
    station: Station,
}

impl JudgeStation {
    fn start(past: &Arc<Past>, work: &Path, worker: &dyn Fn() -> Command) -> Result<JudgeStation> {
        let slot = Arc::new(SwappableDevice::new(Arc::new(State::new(past.clone(), 0, &[])?)));
        let station = Station::start(slot.clone(), Arc::new(NoDesk), work, worker())?;
        Ok(JudgeStation { slot, station })
    }

    fn judge(
        &mut self,
        past: &Arc<Past>,
        engine: &str,
        script: Script,
        choice: &CrashState,
        again: bool,
    ) -> Result<std::result::Result<u64, String>> {
        let kept: Vec<Kept> = choice.kept.iter().map(Kept::from).collect();
        self.slot.put(Arc::new(State::new(past.clone(), choice.until, &kept)?));
        let task = Task::Judge { promised: choice.promised, again };
        let order = WorkerRequest { place: self.station.place(engine, ""), script, task };
        Ok(match self.station.run_request(&order)? {
            WorkerResponse::Applied(applied) => Ok(applied),
            WorkerResponse::Broken(reason) | WorkerResponse::Failed(reason) => Err(reason),
            WorkerResponse::Mark(_) => bail!("the worker sent a mark without a fill"),
        })
    }
}
