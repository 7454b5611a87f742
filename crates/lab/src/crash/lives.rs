//! Campaigns in which one store goes through many power cuts: it is filled, its home loses the power, the disk keeps what it had flushed
//! and any part of the rest, and the next home starts with that disk, judges the store, and goes on filling it.
//!
//! ```text
//! worker ─ engine ─ ext4 or none ─ disk │ ... ─ FUSE ─ Recorder ─ memory
//!             in its home                │ in this process
//! ```
use super::{
    Campaign, Control, Tally,
    block::{IGNORED_FLUSHES, KEPT_MAX, Record},
    choose::{self, Choice},
    kept::KeptState,
    script::Script,
    size::Size,
    station::{Heard, PATIENCE, Worker},
    worker::{Answer, Order, Place, Task},
};
use anyhow::{Result, bail};
use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};
use terrace_device::{
    BlockDevice, Memory, Stream,
    record::{Kept, Past, Recorder, State},
    serve::{FrontEnd, FuseLoop, Served},
};
use terrace_sim::Rng;

/// One home in so many loses its power while it recovers, or judges.
const KILLED_EARLY: usize = 5;
/// One judgement in so many opens the store a second time.
const AGAIN_EVERY: u64 = 4;
/// One batch in six is synced, so a store that has promised nothing for so long is looked at more closely.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// Copied at once.
const CHUNK: usize = 1 << 20;

/// Where a store lives between two power cuts.
pub(super) trait Home {
    /// What is written into it.
    fn size(&self) -> Size;
    /// How long, in ms, it is filled before the power is cut.
    fn life_ms(&self) -> Range<usize>;
    /// A new disk's content, where the worker cannot make it.
    fn new_disk(&self) -> Result<Arc<dyn BlockDevice>> {
        Ok(Arc::new(Memory::new(self.size().device_bytes())?))
    }
    /// Starts a worker at a served disk.
    fn start(&self, disk: &Served) -> Result<Started>;
}

/// A worker in its home.
pub(super) struct Started {
    pub worker: Worker,
    /// Where it finds the disk, and what it mounts.
    pub place: Place,
    /// What its home says when it ends.
    pub last_words: Box<dyn Fn() -> String>,
}

/// Runs a campaign: a state is what a home has left. `watch` sees the tally grow, and says false to stop.
pub(super) fn run(campaign: &Campaign, home: &dyn Home, watch: &mut dyn FnMut(&Tally) -> bool) -> Result<Tally> {
    let mut tally = Tally::default();
    let begin = Instant::now();
    let host = Host { campaign, home };
    let mut store: Option<Store> = None;
    loop {
        let is_late = tally.states > 0 && campaign.time.is_some_and(|time| begin.elapsed() >= time);
        tally.is_stopped = !watch(&tally);
        if is_late || campaign.states.is_some_and(|states| tally.states >= states) || tally.is_stopped {
            break;
        }
        let now = match store.take() {
            Some(store) => store,
            None => {
                tally.histories += 1;
                host.new_store(tally.histories - 1)?
            }
        };
        store = host.round(now, &mut tally)?;
    }
    tally.seconds = begin.elapsed().as_secs_f64();
    Ok(tally)
}

/// What all homes of a campaign have in common.
struct Host<'a> {
    campaign: &'a Campaign,
    home: &'a dyn Home,
}

/// A store between two homes.
struct Store {
    script: Script,
    rng: Rng,
    disk: Arc<dyn BlockDevice>,
    /// So many batches must be there.
    promised: u64,
    /// How the disk came about, if the power was cut.
    cut: Option<Cut>,
}

/// What a home has left.
struct Cut {
    record: Record,
    choice: Choice,
}

/// A home that has power.
struct Running {
    // Before `served`, which can be taken down only when nobody uses it.
    started: Started,
    served: Served,
    recorder: Arc<Recorder>,
    record: Record,
    /// When it last promised something.
    marked: Instant,
}

impl Host<'_> {
    /// Nothing on a new disk.
    fn new_store(&self, number: u64) -> Result<Store> {
        let script = self.campaign.script(number, self.home.size());
        let rng = Rng::of(script.seed, u64::MAX);
        Ok(Store { script, rng, disk: self.home.new_disk()?, promised: 0, cut: None })
    }

    /// One home: judges what the last one left, fills, and has its power cut. `None` once the history is over or broken.
    fn round(&self, mut store: Store, tally: &mut Tally) -> Result<Option<Store>> {
        let mut running = self.start(&store)?;
        if store.cut.is_some() {
            let early = store.rng.below(KILLED_EARLY) == 0;
            let patience = if early { Duration::from_millis(store.rng.below(1500) as u64) } else { PATIENCE };
            let again = tally.states.is_multiple_of(AGAIN_EVERY);
            running.send(store.script, Task::Judge { promised: store.promised, again })?;
            let verdict = match running.hear(Instant::now() + patience)? {
                None if early => return self.cut(running, store, tally),
                None => Err(format!("HANGS: not done after {PATIENCE:?}")),
                Some(Answer::Applied(applied)) => Ok(applied),
                Some(Answer::Broken(reason)) => Err(reason),
                Some(other) => bail!("judge a store of {}: {other:?}", self.campaign.engine),
            };
            self.count(store.script, store.cut.as_ref(), &verdict, tally)?;
            match verdict {
                Ok(applied) => store.promised = applied,
                Err(_) => return Ok(None),
            }
        } else {
            running.send(store.script, Task::Format)?;
            match running.hear(Instant::now() + PATIENCE)? {
                Some(Answer::Applied(_)) => {}
                other => bail!("make a place for a store of {}: {other:?}", self.campaign.engine),
            }
        }
        let is_enough = self.campaign.states.is_some_and(|states| tally.states >= states);
        if store.promised == store.script.batches || is_enough {
            return Ok(None);
        }
        let broken = self.campaign.control;
        running.send(store.script, Task::Fill { from: store.promised + 1, control: None, broken })?;
        let life = self.home.life_ms();
        let life = Duration::from_millis((life.start + store.rng.below(life.len())) as u64);
        match running.live(Instant::now() + life)? {
            None | Some(Answer::Applied(_)) => self.cut(running, store, tally),
            Some(Answer::Broken(reason)) => self.fell_over(running, &store, reason, tally).map(|()| None),
            Some(other) => bail!("fill a store of {}: {other:?}", self.campaign.engine),
        }
    }

    fn start(&self, store: &Store) -> Result<Running> {
        let work = &self.campaign.work;
        let record = Record::in_new_directory(work)?;
        let recorder = Arc::new(Recorder::new(Arc::new(Memory::new(store.disk.len_bytes())?), record.path())?);
        imprint(&*store.disk, &*recorder)?;
        recorder.flush()?;
        recorder.mark(store.promised)?;
        let served = FuseLoop { work: work.clone(), attached: false }.serve(recorder.clone(), recorder.clone())?;
        let started = self.home.start(&served)?;
        Ok(Running { started, served, recorder, record, marked: Instant::now() })
    }

    /// Cuts the power: the disk keeps what it had flushed, and any part of the rest.
    fn cut(&self, mut running: Running, mut store: Store, tally: &mut Tally) -> Result<Option<Store>> {
        let ended = running.recorder.end(); // what a kernel that is still there writes now was never on the disk
        if let Some(Answer::Broken(reason)) = running.hear(Instant::now())? {
            return self.fell_over(running, &store, reason, tally).map(|()| None);
        }
        let Running { started, mut served, record, .. } = running;
        drop(started);
        served.stop()?;
        ended?;
        let past = Arc::new(Past::open(record.path())?);
        tally.events += past.events().len() as u64;
        let ignored = if self.campaign.control == Some(Control::IgnoredFlushes) { IGNORED_FLUSHES } else { 0 };
        let choice = choose::end(past.events(), ignored, store.rng.next_u64());
        let kept: Vec<Kept> = choice.kept.iter().map(Kept::from).collect();
        store.disk = Arc::new(State::new(past.clone(), choice.until, &kept)?);
        store.promised = choice.promised;
        store.cut = Some(Cut { record, choice });
        Ok(Some(store))
    }

    /// A store that was judged to be sound fell over while it was filled, which is a judgement, too. Kept is the disk with all that was
    /// written to it.
    fn fell_over(&self, running: Running, store: &Store, reason: String, tally: &mut Tally) -> Result<()> {
        let Running { started, mut served, recorder, record, .. } = running;
        let ended = recorder.end();
        drop(started);
        served.stop()?;
        ended?;
        let choice = choose::everything(Past::open(record.path())?.events());
        self.count(store.script, Some(&Cut { record, choice }), &Err(reason), tally)
    }

    /// Counts a judgement, and keeps what failed.
    fn count(&self, script: Script, of: Option<&Cut>, verdict: &Result<u64, String>, tally: &mut Tally) -> Result<()> {
        let number = tally.states;
        let is_new = tally.count(verdict) <= KEPT_MAX;
        if let (Err(reason), Some(dir), Some(cut), true) = (verdict, &self.campaign.keep, of, is_new) {
            let Cut { record, choice } = cut;
            let engine = &self.campaign.engine;
            let file = KeptState::write(dir, record.path(), engine, script, (number, choice), reason)?;
            tally.kept.push(file);
        }
        Ok(())
    }
}

impl Running {
    fn send(&mut self, script: Script, task: Task) -> Result<()> {
        self.started.worker.send(&Order { place: self.started.place.clone(), script, task })
    }

    /// The next answer, or none by then. A store that has promised nothing for a while is given a long one more: it hangs if it goes on so.
    fn live(&mut self, until: Instant) -> Result<Option<Answer>> {
        loop {
            match self.hear(until)? {
                None if self.marked.elapsed() < QUIET_MAX => return Ok(None),
                None => {}
                answer => return Ok(answer),
            }
            let (marked, patience) = (self.marked, Instant::now() + PATIENCE);
            while self.marked == marked {
                match self.hear(Instant::now() + QUIET_MAX / 4)? {
                    None if Instant::now() > patience => {
                        return Ok(Some(Answer::Broken(format!("HANGS: nothing was promised for {PATIENCE:?}"))));
                    }
                    None => {}
                    answer => return Ok(answer),
                }
            }
        }
    }

    /// The next answer, or none by then. Marks among the answers go into the record.
    fn hear(&mut self, until: Instant) -> Result<Option<Answer>> {
        loop {
            match self.started.worker.hear(until.saturating_duration_since(Instant::now()))? {
                Heard::Answer(Answer::Mark(number)) => {
                    self.marked = Instant::now();
                    self.recorder.mark(number)?;
                }
                Heard::Answer(Answer::Failed(why)) => bail!("{why}"),
                Heard::Answer(answer) => return Ok(Some(answer)),
                Heard::Nothing => return Ok(None),
                Heard::End(status) => {
                    return Ok(Some(Answer::Broken(format!("DIES: {status}: {}", (self.started.last_words)()))));
                }
            }
        }
    }
}

/// Writes to one device what is not zero on the other.
pub(super) fn imprint(from: &dyn BlockDevice, to: &dyn BlockDevice) -> Result<()> {
    let mut bytes = vec![0; CHUNK];
    for offset in (0..from.len_bytes()).step_by(CHUNK) {
        from.read_at(offset, &mut bytes)?;
        for (nth, block) in bytes.chunks(4096).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
            to.write_at(offset + nth as u64 * 4096, block, Stream::default())?;
        }
    }
    Ok(())
}
