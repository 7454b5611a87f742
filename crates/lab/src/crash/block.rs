//! The campaign on a recorded device: a store is filled on a real file system there, or on the device itself, then states that a
//! power cut could have left are mounted, opened and judged, several side by side.
use super::{
    Campaign, Control, Tally,
    choose::{Choice, Chooser},
    kept::KeptState,
    script::Script,
    size::Size,
    station::{Slot, Station},
    worker::{Answer, Order, Task},
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

/// States of one history at least; then comes another one.
const STATES_PER_HISTORY_MIN: u64 = 400;
/// Flushes that a device ignores under [`Control::IgnoredFlushes`].
pub(super) const IGNORED_FLUSHES: usize = 4;
/// Failing states that are written to files: the others would tell the same.
pub(super) const KEPT_MAX: u64 = 5;
/// One state in so many is opened a second time.
const AGAIN_EVERY: u64 = 4;

/// Runs a campaign; `worker` is the command of a process that does [`serve`](super::worker::serve). `watch` sees the tally grow, and
/// says false to stop.
///
/// # Errors
/// Something is missing, or a store cannot be filled; a broken contract is a result, no error.
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

/// Judges one kept state again. What is wrong with it, or the number of batches that are there.
pub fn replay(
    file: &Path,
    work: &Path,
    worker: &(dyn Fn() -> Command + Sync),
) -> Result<std::result::Result<u64, String>> {
    let state = KeptState::read(file)?;
    let past = Arc::new(Past::open(&state.record)?);
    let mut bench = Bench::start(&past, work, worker)?;
    bench.judge(&past, &state.engine, state.script(), &state.choice, true)
}

/// ext4 commits often, so that much happens in a short history.
pub(super) fn mount_options(broken: Option<Control>) -> &'static str {
    if broken == Some(Control::NoBarrier) { "commit=1,barrier=0" } else { "commit=1" }
}

/// A record's file in a directory of its own, gone when dropped; after a kill `terrace ssd cleanup` finds it.
pub(super) struct Record(PathBuf);

impl Record {
    /// Where one may be written.
    pub fn in_new_directory(work: &Path) -> Result<Record> {
        Ok(Record(new_directory(work)?.join("record")))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Fills a store with `script`.
    fn make(campaign: &Campaign, script: Script, worker: &dyn Fn() -> Command) -> Result<Record> {
        let record = Record::in_new_directory(&campaign.work)?;
        let recorder = Arc::new(Recorder::new(Arc::new(Memory::new(script.size.device_bytes())?), &record.0)?);
        let mut station = Station::start(recorder.clone(), recorder.clone(), &campaign.work, worker())?;
        let broken = campaign.control;
        for task in [Task::Format, Task::Fill { from: 1, control: Some(station.control()), broken }] {
            let place = station.place(&campaign.engine, mount_options(broken));
            let order = Order { place, script, task };
            match station.answer(&order).with_context(|| format!("fill a store of {}", campaign.engine))? {
                Answer::Applied(_) => {}
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

/// The states of one history.
struct Job<'a> {
    campaign: &'a Campaign,
    worker: &'a (dyn Fn() -> Command + Sync),
    past: Arc<Past>,
    script: Script,
    /// When the first state of the campaign was begun.
    begin: Instant,
    /// At most so many.
    states: u64,
}

impl Job<'_> {
    fn run(&self, tally: &mut Tally, watch: &mut dyn FnMut(&Tally) -> bool) -> Result<()> {
        let ignored = if self.campaign.control == Some(Control::IgnoredFlushes) { IGNORED_FLUSHES } else { 0 };
        let chooser = Chooser::new(self.past.events(), ignored, self.script.seed);
        let chooser = chooser.context("the record has no changes behind a mark")?;
        let all = chooser.states_of_all_subsets();
        let (subsets, end) = (all / 2, self.states.min(STATES_PER_HISTORY_MIN.max(all)));
        tally.subsets += subsets;
        let shared =
            Shared { end, subsets, next: AtomicU64::new(0), stop: AtomicBool::new(false), tally: Mutex::new(tally) };
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

    /// What one station does.
    fn judge_some(&self, chooser: &Chooser<'_>, shared: &Shared<'_>) -> Result<()> {
        let mut bench = Bench::start(&self.past, &self.campaign.work, self.worker)?;
        while !shared.stop.load(Relaxed) {
            let number = shared.next.fetch_add(1, Relaxed);
            if number >= shared.end {
                break;
            }
            let choice = chooser.choice(number);
            let again = number.is_multiple_of(AGAIN_EVERY);
            let verdict = bench.judge(&self.past, &self.campaign.engine, self.script, &choice, again)?;
            let is_new = {
                let mut tally = shared.tally();
                tally.subsets_judged += u64::from(chooser.subset(number).is_some_and(|nth| nth < shared.subsets));
                tally.count(&verdict) <= KEPT_MAX
            };
            if let (Err(reason), Some(dir), true) = (&verdict, &self.campaign.keep, is_new) {
                let engine = &self.campaign.engine;
                let file = KeptState::write(dir, self.past.path(), engine, self.script, (number, &choice), reason)?;
                shared.tally().kept.push(file);
            }
            if !bench.station.is_usable() {
                bench = Bench::start(&self.past, &self.campaign.work, self.worker)?;
            }
        }
        Ok(())
    }
}

/// What the stations of a job share.
struct Shared<'a> {
    /// Number of the next state.
    next: AtomicU64,
    /// Number of the last state, and one.
    end: u64,
    /// How many of them are subsets of small windows.
    subsets: u64,
    stop: AtomicBool,
    /// Taken for a moment, never while a state is judged.
    tally: Mutex<&'a mut Tally>,
}

impl<'a> Shared<'a> {
    fn tally(&self) -> MutexGuard<'_, &'a mut Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A station whose device is one state after the other.
struct Bench {
    slot: Arc<Slot>,
    station: Station,
}

impl Bench {
    fn start(past: &Arc<Past>, work: &Path, worker: &dyn Fn() -> Command) -> Result<Bench> {
        let slot = Arc::new(Slot::new(Arc::new(State::new(past.clone(), 0, &[])?)));
        let station = Station::start(slot.clone(), Arc::new(NoDesk), work, worker())?;
        Ok(Bench { slot, station })
    }

    fn judge(
        &mut self,
        past: &Arc<Past>,
        engine: &str,
        script: Script,
        choice: &Choice,
        again: bool,
    ) -> Result<std::result::Result<u64, String>> {
        let kept: Vec<Kept> = choice.kept.iter().map(Kept::from).collect();
        self.slot.put(Arc::new(State::new(past.clone(), choice.until, &kept)?));
        let task = Task::Judge { promised: choice.promised, again };
        let order = Order { place: self.station.place(engine, ""), script, task };
        Ok(match self.station.answer(&order)? {
            Answer::Applied(applied) => Ok(applied),
            Answer::Broken(reason) | Answer::Failed(reason) => Err(reason),
            Answer::Mark(_) => bail!("a mark, and nothing was filled"),
        })
    }
}
