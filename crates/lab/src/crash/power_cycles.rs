//! Crash-test campaigns in which one store survives many power cuts. A host, which is a process or
//! an emulated machine, fills the store on a disk. When the host loses power, the disk keeps all
//! flushed writes and any part of the other writes. The next host starts with that disk, judges
//! the store, and continues to fill it.
//!
//! ```text
//! worker ─ engine ─ ext4 or none ─ disk │ ... ─ FUSE ─ Recorder ─ memory
//!             in its host               │ in this process
//! ```
use super::{
    Campaign, NegativeControl, Tally,
    block::{IGNORED_FLUSHES, KEPT_MAX, Record},
    crash_state::{self, CrashState},
    saved_state::SavedState,
    script::Script,
    size::Size,
    station::{REQUEST_TIMEOUT, Received, Worker},
    worker::{StoreLocation, Task, WorkerRequest, WorkerResponse},
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

/// The campaign cuts the power of one host in this many while the host recovers or judges the
/// store.
const KILLED_EARLY: usize = 5;
/// The judge opens the store a second time in one of this many judgements.
const REOPEN_EVERY: u64 = 4;
/// Time after which a store is suspected to hang if it reports no promised batch. One batch in six
/// is synced, and each synced batch is promised, so promises are frequent.
const PROMISE_TIMEOUT: Duration = Duration::from_secs(2);
/// Size in bytes of one read while a disk is copied.
const CHUNK: usize = 1 << 20;

/// A process or an emulated machine in which a store runs between two power cuts.
pub(super) trait PowerCutHost {
    /// Returns the size of the histories.
    fn size(&self) -> Size;
    /// Returns the range of times, in ms, after which the power of a host that fills a store is
    /// cut.
    fn life_ms(&self) -> Range<usize>;
    /// Returns a new disk. The default is an empty disk, which the worker process formats. Hosts
    /// whose worker cannot format a disk override this function.
    fn new_disk(&self) -> Result<Arc<dyn BlockDevice>> {
        Ok(Arc::new(Memory::new(self.size().device_bytes())?))
    }
    /// Starts a host with a worker process on a served disk.
    fn start(&self, disk: &Served) -> Result<StartedHost>;
}

/// A host that has power, with its worker process.
pub(super) struct StartedHost {
    pub worker: Worker,
    /// Location of the disk and of the mount point, in the form that the worker receives.
    pub place: StoreLocation,
    /// A function that returns the last output of the host, for error texts.
    pub last_output: Box<dyn Fn() -> String>,
}

/// Runs a campaign. A crash state is the disk content that remains after a host has lost its
/// power. `watch` receives the tally after each crash state, and returns false to stop the
/// campaign.
pub(super) fn run(
    campaign: &Campaign,
    host: &dyn PowerCutHost,
    watch: &mut dyn FnMut(&Tally) -> bool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let begin = Instant::now();
    let host = CampaignHosts { campaign, host };
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

/// The parts that all hosts of a campaign have in common.
struct CampaignHosts<'a> {
    campaign: &'a Campaign,
    host: &'a dyn PowerCutHost,
}

/// A store between two hosts: its disk and its history.
struct Store {
    script: Script,
    rng: Rng,
    disk: Arc<dyn BlockDevice>,
    /// Number of batches that the store must contain.
    promised: u64,
    /// The power cut that left the disk in this state; `None` for a new disk.
    cut: Option<PowerCut>,
}

/// A power cut: the device requests that were recorded before it, and the crash state that was
/// chosen.
struct PowerCut {
    record: Record,
    choice: CrashState,
}

/// A host that has power, and the disk that is served to it.
struct Running {
    // Declared before `served`, so that the worker ends first. A served disk can be unmounted only
    // when it is not in use.
    started: StartedHost,
    served: Served,
    recorder: Arc<Recorder>,
    record: Record,
    /// Time at which the worker last reported a promised batch.
    marked: Instant,
}

impl CampaignHosts<'_> {
    /// Creates a store without contents on a new disk, for history `number`.
    fn new_store(&self, number: u64) -> Result<Store> {
        let script = self.campaign.script(number, self.host.size());
        let rng = Rng::of(script.seed, u64::MAX);
        Ok(Store { script, rng, disk: self.host.new_disk()?, promised: 0, cut: None })
    }

    /// Runs one host. The host judges the crash state that the previous host left, continues to
    /// fill the store, and loses power. Returns `None` if the history is complete or the store
    /// violates the contract.
    fn round(&self, mut store: Store, tally: &mut Tally) -> Result<Option<Store>> {
        let mut running = self.start(&store)?;
        if store.cut.is_some() {
            let early = store.rng.below(KILLED_EARLY) == 0;
            let patience = if early { Duration::from_millis(store.rng.below(1500) as u64) } else { REQUEST_TIMEOUT };
            let again = tally.states.is_multiple_of(REOPEN_EVERY);
            running.send(store.script, Task::Judge { promised: store.promised, again })?;
            let verdict = match running.receive(Instant::now() + patience)? {
                None if early => return self.cut(running, store, tally),
                None => Err(format!("HANGS: not finished after {REQUEST_TIMEOUT:?}")),
                Some(WorkerResponse::Applied(applied)) => Ok(applied),
                Some(WorkerResponse::Broken(reason)) => Err(reason),
                Some(other) => bail!("judge a store of {}: {other:?}", self.campaign.engine),
            };
            self.count(store.script, store.cut.as_ref(), &verdict, tally)?;
            match verdict {
                Ok(applied) => store.promised = applied,
                Err(_) => return Ok(None),
            }
        } else {
            running.send(store.script, Task::Format)?;
            match running.receive(Instant::now() + REQUEST_TIMEOUT)? {
                Some(WorkerResponse::Applied(_)) => {}
                other => bail!("format a device for a store of {}: {other:?}", self.campaign.engine),
            }
        }
        let is_enough = self.campaign.states.is_some_and(|states| tally.states >= states);
        if store.promised == store.script.batches || is_enough {
            return Ok(None);
        }
        let broken = self.campaign.control;
        running.send(store.script, Task::Fill { from: store.promised + 1, control: None, broken })?;
        let life = self.host.life_ms();
        let life = Duration::from_millis((life.start + store.rng.below(life.len())) as u64);
        match running.receive_live(Instant::now() + life)? {
            None | Some(WorkerResponse::Applied(_)) => self.cut(running, store, tally),
            Some(WorkerResponse::Broken(reason)) => {
                self.failed_while_filling(running, &store, reason, tally).map(|()| None)
            }
            Some(other) => bail!("fill a store of {}: {other:?}", self.campaign.engine),
        }
    }

    fn start(&self, store: &Store) -> Result<Running> {
        let work = &self.campaign.work;
        let record = Record::in_new_directory(work)?;
        let recorder = Arc::new(Recorder::new(Arc::new(Memory::new(store.disk.len_bytes())?), record.path())?);
        copy_nonzero(&*store.disk, &*recorder)?;
        recorder.flush()?;
        recorder.mark(store.promised)?;
        let served = FuseLoop { work: work.clone(), attached: false }.serve(recorder.clone(), recorder.clone())?;
        let started = self.host.start(&served)?;
        Ok(Running { started, served, recorder, record, marked: Instant::now() })
    }

    /// Cuts the power of the host. The disk keeps the flushed writes and any part of the other
    /// writes.
    fn cut(&self, mut running: Running, mut store: Store, tally: &mut Tally) -> Result<Option<Store>> {
        // The recording ends here, at the power cut. The host's kernel still runs and may send more
        // writes, which are not recorded.
        let ended = running.recorder.end();
        if let Some(WorkerResponse::Broken(reason)) = running.receive(Instant::now())? {
            return self.failed_while_filling(running, &store, reason, tally).map(|()| None);
        }
        let Running { started, mut served, record, .. } = running;
        drop(started);
        served.stop()?;
        ended?;
        let past = Arc::new(Past::open(record.path())?);
        tally.events += past.events().len() as u64;
        let ignored = if self.campaign.control == Some(NegativeControl::IgnoredFlushes) { IGNORED_FLUSHES } else { 0 };
        let choice = crash_state::end(past.events(), ignored, store.rng.next_u64());
        let kept: Vec<Kept> = choice.kept.iter().map(Kept::from).collect();
        store.disk = Arc::new(State::new(past.clone(), choice.until, &kept)?);
        store.promised = choice.promised;
        store.cut = Some(PowerCut { record, choice });
        Ok(Some(store))
    }

    /// Counts a store that failed while the host filled it. This is a violation of the contract,
    /// although the host had judged the store's crash state as correct before. The crash state that
    /// is saved is the disk with all writes.
    fn failed_while_filling(&self, running: Running, store: &Store, reason: String, tally: &mut Tally) -> Result<()> {
        let Running { started, mut served, recorder, record, .. } = running;
        let ended = recorder.end();
        drop(started);
        served.stop()?;
        ended?;
        let choice = crash_state::everything(Past::open(record.path())?.events());
        self.count(store.script, Some(&PowerCut { record, choice }), &Err(reason), tally)
    }

    /// Counts the verdict on a crash state, and saves the crash state if it violates the contract.
    fn count(
        &self,
        script: Script,
        of: Option<&PowerCut>,
        verdict: &Result<u64, String>,
        tally: &mut Tally,
    ) -> Result<()> {
        let number = tally.states;
        let is_new = tally.count(verdict) <= KEPT_MAX;
        if let (Err(reason), Some(dir), Some(cut), true) = (verdict, &self.campaign.keep, of, is_new) {
            let PowerCut { record, choice } = cut;
            let engine = &self.campaign.engine;
            let file = SavedState::write(dir, record.path(), engine, script, (number, choice), reason)?;
            tally.kept.push(file);
        }
        Ok(())
    }
}

impl Running {
    fn send(&mut self, script: Script, task: Task) -> Result<()> {
        self.started.worker.send(&WorkerRequest { place: self.started.place.clone(), script, task })
    }

    /// Returns the next response of the worker, or `None` at the deadline. If the worker has
    /// reported no promised batch for [`PROMISE_TIMEOUT`], the function waits up to
    /// [`REQUEST_TIMEOUT`] longer. A store that promises nothing in this time hangs, which violates
    /// the contract.
    fn receive_live(&mut self, until: Instant) -> Result<Option<WorkerResponse>> {
        loop {
            match self.receive(until)? {
                None if self.marked.elapsed() < PROMISE_TIMEOUT => return Ok(None),
                None => {}
                answer => return Ok(answer),
            }
            let (marked, patience) = (self.marked, Instant::now() + REQUEST_TIMEOUT);
            while self.marked == marked {
                match self.receive(Instant::now() + PROMISE_TIMEOUT / 4)? {
                    None if Instant::now() > patience => {
                        return Ok(Some(WorkerResponse::Broken(format!(
                            "HANGS: nothing was promised for {REQUEST_TIMEOUT:?}"
                        ))));
                    }
                    None => {}
                    answer => return Ok(answer),
                }
            }
        }
    }

    /// Returns the next response of the worker, or `None` at the deadline. Marks (numbers of
    /// promised batches) that arrive before the response are added to the record.
    fn receive(&mut self, until: Instant) -> Result<Option<WorkerResponse>> {
        loop {
            match self.started.worker.receive(until.saturating_duration_since(Instant::now()))? {
                Received::Response(WorkerResponse::Mark(number)) => {
                    self.marked = Instant::now();
                    self.recorder.mark(number)?;
                }
                Received::Response(WorkerResponse::Failed(why)) => bail!("{why}"),
                Received::Response(answer) => return Ok(Some(answer)),
                Received::Nothing => return Ok(None),
                Received::End(status) => {
                    return Ok(Some(WorkerResponse::Broken(format!(
                        "DIES: {status}: {}",
                        (self.started.last_output)()
                    ))));
                }
            }
        }
    }
}

/// Copies the nonzero blocks of one device to another.
pub(super) fn copy_nonzero(from: &dyn BlockDevice, to: &dyn BlockDevice) -> Result<()> {
    let mut bytes = vec![0; CHUNK];
    for offset in (0..from.len_bytes()).step_by(CHUNK) {
        from.read_at(offset, &mut bytes)?;
        for (nth, block) in bytes.chunks(4096).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
            to.write_at(offset + nth as u64 * 4096, block, Stream::default())?;
        }
    }
    Ok(())
}
