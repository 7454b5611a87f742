//! A served device with a worker at it: states are put in and judged, one after the other.
use super::worker::{Answer, Order, Place};
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, PoisonError, RwLock,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};
use terrace_device::{
    BlockDevice, Stream,
    serve::{Desk, FrontEnd, FuseLoop, Served},
};

/// Longest that an order may take. A store that hangs is as broken as one that is lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A device that can be exchanged while nobody uses it.
pub struct Slot(RwLock<Arc<dyn BlockDevice>>);

impl Slot {
    /// Holds `device` at first. All that follow must have its length.
    pub fn new(device: Arc<dyn BlockDevice>) -> Slot {
        Slot(RwLock::new(device))
    }

    /// From now on it is `device`.
    pub fn put(&self, device: Arc<dyn BlockDevice>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = device;
    }

    fn get(&self) -> Arc<dyn BlockDevice> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl BlockDevice for Slot {
    fn len_bytes(&self) -> u64 {
        self.get().len_bytes()
    }
    fn block_bytes(&self) -> u32 {
        self.get().block_bytes()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> terrace_device::Result<()> {
        self.get().read_at(offset, into)
    }
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> terrace_device::Result<()> {
        self.get().write_at(offset, bytes, stream)
    }
    fn flush(&self) -> terrace_device::Result<()> {
        self.get().flush()
    }
    fn discard(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.get().discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.get().write_zeroes(offset, len)
    }
}

/// See the module.
pub struct Station {
    // Before `served`, which can be taken down only when nobody uses it.
    worker: Worker,
    served: Served,
}

/// What a worker said.
pub enum Heard {
    /// An answer.
    Answer(Answer),
    /// Nothing yet.
    Nothing,
    /// It has ended.
    End(ExitStatus),
}

/// A worker that is killed when dropped.
pub struct Worker {
    process: Child,
    is_lost: bool,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Station {
    /// Serves `device` below `work`, and starts `command` as the worker at it.
    pub fn start(device: Arc<dyn BlockDevice>, desk: Arc<dyn Desk>, work: &Path, command: Command) -> Result<Station> {
        let front_end = FuseLoop { work: work.into(), attached: false };
        let served = front_end.serve(device, desk)?;
        Ok(Station { worker: Worker::start(command)?, served })
    }

    /// Where orders find the device.
    pub fn place(&self, engine: &str, options: &str) -> Place {
        let (image, mount_point) = (self.served.node().into(), self.served.mount_point());
        Place { image, mount_point, engine: engine.into(), options: options.into() }
    }

    /// Where the desk takes orders.
    pub fn control(&self) -> std::path::PathBuf {
        self.served.control()
    }

    /// Has an order carried out. A worker that dies of it is broken, as is one that is not done in time; after that the
    /// station is of no more use.
    pub fn answer(&mut self, order: &Order) -> Result<Answer> {
        self.worker.send(order)?;
        match self.worker.hear(PATIENCE)? {
            Heard::Answer(Answer::Failed(why)) => bail!("{why}"),
            Heard::Answer(answer) => Ok(answer),
            Heard::Nothing => {
                self.worker.is_lost = true;
                Ok(Answer::Broken(format!("HANGS: not done after {PATIENCE:?}")))
            }
            Heard::End(status) => Ok(Answer::Broken(format!("DIES: the process ends with {status}"))),
        }
    }

    /// Whether the worker still takes orders.
    pub fn is_usable(&self) -> bool {
        !self.worker.is_lost
    }
}

impl Worker {
    /// Starts `command`, which takes orders and gives answers.
    pub fn start(mut command: Command) -> Result<Worker> {
        // A group of its own: Ctrl-C reaches the campaign, which ends the worker.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().context("start a worker")?;
        let orders = process.stdin.take().expect("it is piped");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let (sender, answers) = channel();
        thread::spawn(move || {
            // What is no JSON is not meant for us: a test's harness talks too.
            let answers = lines.map_while(Result::ok).filter(|line| line.starts_with('{'));
            answers.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Ok(Worker { process, is_lost: false, orders, answers })
    }

    /// Gives an order. One that has ended is not noticed before [`hear`](Worker::hear).
    pub fn send(&mut self, order: &Order) -> Result<()> {
        let line = serde_json::to_string(order)? + "\n";
        self.is_lost |= self.orders.write_all(line.as_bytes()).is_err();
        Ok(())
    }

    /// Waits for the next answer, at most so long.
    pub fn hear(&mut self, patience: Duration) -> Result<Heard> {
        match self.answers.recv_timeout(patience) {
            Ok(line) => Ok(Heard::Answer(serde_json::from_str(&line).with_context(|| format!("an answer: {line}"))?)),
            Err(RecvTimeoutError::Timeout) => Ok(Heard::Nothing),
            Err(RecvTimeoutError::Disconnected) => {
                self.is_lost = true;
                Ok(Heard::End(self.process.wait().context("wait for the worker")?))
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
