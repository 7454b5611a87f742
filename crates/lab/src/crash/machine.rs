//! The campaign on an emulated machine: a store is filled, the machine is killed, its disk keeps what it had flushed and any part of
//! the rest, and the next machine boots with that disk, judges the store, and goes on filling it. So a kernel that really stopped
//! is part of it, and one store goes through many cuts.
//!
//! ```text
//! worker ─ engine ─ ext4 ─ virtio disk │ QEMU ─ FUSE ─ Recorder ─ memory
//!        in the machine                │ in this one
//! ```
use super::{
    Campaign, Control, Tally,
    block::{DEVICE_BYTES, IGNORED_FLUSHES, KEPT_MAX, Record, mount_options},
    choose::{self, Choice},
    emulator::{DISK, Emulator, MOUNT_POINT, Packed, last_words, nameless},
    kept::KeptState,
    script::Script,
    station::{Heard, PATIENCE, Worker},
    worker::{self, Answer, Order, Place, Task},
};
use anyhow::{Result, bail};
use std::{
    fs::File,
    ops::Range,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use terrace_device::{
    BlockDevice, File as FileDevice, Memory, Stream,
    record::{Kept, Past, Recorder, State},
    serve::{FrontEnd, FuseLoop, Served},
};
use terrace_sim::Rng;

/// A filling machine lives so long, from when it is told to. ext4 commits once a second.
const LIFE_MS: Range<usize> = 400..7000;
/// One machine in so many is killed while it recovers, or judges.
const KILLED_EARLY: usize = 5;
/// One judgement in so many opens the store a second time.
const AGAIN_EVERY: u64 = 4;
/// Copied at once.
const CHUNK: usize = 1 << 20;

/// Runs a campaign: a state is a machine that was killed. `worker` is as in [`block::run`](super::block::run); it becomes the
/// machine's only process. `watch` sees the tally grow, and says false to stop.
///
/// # Errors
/// Something is missing, or a machine does not come up; a broken contract is a result, no error.
pub fn run(
    campaign: &Campaign,
    emulator: &Emulator,
    worker: &Command,
    watch: &mut dyn FnMut(&Tally) -> bool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let begin = Instant::now();
    let packed = emulator.pack(worker, &campaign.work)?;
    let host = Host { campaign, emulator, packed };
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

/// What all machines of a campaign have in common.
struct Host<'a> {
    campaign: &'a Campaign,
    emulator: &'a Emulator,
    packed: Packed,
}

/// A store between two machines.
struct Store {
    script: Script,
    rng: Rng,
    disk: Arc<dyn BlockDevice>,
    /// So many batches must be there.
    promised: u64,
    /// How the disk came about, if a machine was killed.
    killed: Option<Killed>,
}

/// What a killed machine left.
struct Killed {
    record: Record,
    choice: Choice,
}

/// A machine that runs.
struct Machine {
    // Before `served`, which can be taken down only when nobody uses it.
    worker: Worker,
    served: Served,
    recorder: Arc<Recorder>,
    record: Record,
    console: File,
}

impl Host<'_> {
    /// An empty file system.
    fn new_store(&self, number: u64) -> Result<Store> {
        let script = Script { seed: self.campaign.seed.wrapping_add(number), batches: self.campaign.batches };
        let image = Record::in_new_directory(&self.campaign.work)?;
        let file = FileDevice::create(image.path(), DEVICE_BYTES)?;
        worker::make_file_system(image.path())?;
        let disk = Memory::new(DEVICE_BYTES)?;
        imprint(&file, &disk)?;
        Ok(Store { script, rng: Rng::of(script.seed, u64::MAX), disk: Arc::new(disk), promised: 0, killed: None })
    }

    /// One machine: judges what the last one left, fills, and is killed. `None` once the history is over or broken.
    fn round(&self, mut store: Store, tally: &mut Tally) -> Result<Option<Store>> {
        let mut machine = self.boot(&store)?;
        if store.killed.is_some() {
            let early = store.rng.below(KILLED_EARLY) == 0;
            let patience = if early { Duration::from_millis(store.rng.below(1500) as u64) } else { PATIENCE };
            let task = Task::Judge { promised: store.promised, again: tally.states.is_multiple_of(AGAIN_EVERY) };
            machine.worker.send(&self.order(&store, task))?;
            match machine.hear(Instant::now() + patience)? {
                None if early => return self.kill(machine, store, tally).map(Some),
                None => {
                    return self
                        .count(&store, Err(format!("HANGS: not done after {PATIENCE:?}")), tally)
                        .map(|()| None);
                }
                Some(Answer::Applied(applied)) => {
                    self.count(&store, Ok(applied), tally)?;
                    store.promised = applied;
                }
                Some(Answer::Broken(reason)) => return self.count(&store, Err(reason), tally).map(|()| None),
                Some(other) => bail!("judge a store of {}: {other:?}", self.campaign.engine),
            }
        }
        if store.promised == store.script.batches {
            return Ok(None);
        }
        let task = Task::Fill { from: store.promised + 1, control: None, broken: self.campaign.control };
        machine.worker.send(&self.order(&store, task))?;
        let life = Duration::from_millis((LIFE_MS.start + store.rng.below(LIFE_MS.len())) as u64);
        match machine.hear(Instant::now() + life)? {
            None | Some(Answer::Applied(_)) => self.kill(machine, store, tally).map(Some),
            // What it was judged to be sound, and then it fell over.
            Some(Answer::Broken(reason)) => self.count(&store, Err(reason), tally).map(|()| None),
            Some(other) => bail!("fill a store of {}: {other:?}", self.campaign.engine),
        }
    }

    fn boot(&self, store: &Store) -> Result<Machine> {
        let work = &self.campaign.work;
        let record = Record::in_new_directory(work)?;
        let recorder = Arc::new(Recorder::new(Arc::new(Memory::new(DEVICE_BYTES)?), record.path())?);
        imprint(&*store.disk, &*recorder)?;
        recorder.flush()?;
        recorder.mark(store.promised)?;
        let served = FuseLoop { work: work.clone(), attached: false }.serve(recorder.clone(), recorder.clone())?;
        let console = nameless(work)?;
        let worker = Worker::start(self.emulator.command(&self.packed, served.node(), &console))?;
        Ok(Machine { worker, served, recorder, record, console })
    }

    fn order(&self, store: &Store, task: Task) -> Order {
        let options = mount_options(self.campaign.control).into();
        let engine = self.campaign.engine.clone();
        let place = Place { image: DISK.into(), mount_point: MOUNT_POINT.into(), engine, options };
        Order { place, seed: store.script.seed, batches: store.script.batches, task }
    }

    /// Kills a machine: its disk keeps what it had flushed, and any part of the rest.
    fn kill(&self, machine: Machine, mut store: Store, tally: &mut Tally) -> Result<Store> {
        let Machine { worker, mut served, recorder, record, .. } = machine;
        drop(worker);
        served.stop()?;
        recorder.finish()?;
        let past = Arc::new(Past::open(record.path())?);
        tally.events += past.events().len() as u64;
        let ignored = if self.campaign.control == Some(Control::IgnoredFlushes) { IGNORED_FLUSHES } else { 0 };
        let choice = choose::end(past.events(), ignored, store.rng.next_u64());
        let kept: Vec<Kept> = choice.kept.iter().map(Kept::from).collect();
        store.disk = Arc::new(State::new(past.clone(), choice.until, &kept)?);
        store.promised = choice.promised;
        store.killed = Some(Killed { record, choice });
        Ok(store)
    }

    /// Counts a judgement, and keeps what failed.
    fn count(&self, store: &Store, verdict: Result<u64, String>, tally: &mut Tally) -> Result<()> {
        let number = tally.states;
        let is_new = tally.count(&verdict) <= KEPT_MAX;
        if let (Err(reason), Some(dir), Some(killed), true) = (&verdict, &self.campaign.keep, &store.killed, is_new) {
            let Killed { record, choice } = killed;
            let file =
                KeptState::write(dir, record.path(), &self.campaign.engine, store.script, (number, choice), reason)?;
            tally.kept.push(file);
        }
        Ok(())
    }
}

impl Machine {
    /// The next answer, or none by then. Marks among the answers go into the record.
    fn hear(&mut self, until: Instant) -> Result<Option<Answer>> {
        loop {
            match self.worker.hear(until.saturating_duration_since(Instant::now()))? {
                Heard::Answer(Answer::Mark(number)) => self.recorder.mark(number)?,
                Heard::Answer(Answer::Failed(why)) => bail!("{why}"),
                Heard::Answer(answer) => return Ok(Some(answer)),
                Heard::Nothing => return Ok(None),
                Heard::End(status) => {
                    return Ok(Some(Answer::Broken(format!("DIES: {status}: {}", last_words(&self.console)))));
                }
            }
        }
    }
}

/// Writes to one device what is not zero on the other.
fn imprint(from: &dyn BlockDevice, to: &dyn BlockDevice) -> Result<()> {
    let mut bytes = vec![0; CHUNK];
    for offset in (0..from.len_bytes()).step_by(CHUNK) {
        from.read_at(offset, &mut bytes)?;
        for (nth, block) in bytes.chunks(4096).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
            to.write_at(offset + nth as u64 * 4096, block, Stream::default())?;
        }
    }
    Ok(())
}
