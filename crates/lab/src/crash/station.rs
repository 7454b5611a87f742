//! A station for crash tests consists of a served block device and a worker process. The device
//! shows one crash state after another, and the worker judges the store in each of them.
use super::worker::{StoreLocation, WorkerRequest, WorkerResponse};
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

/// Maximum duration of a request to a worker. A store that exceeds it hangs, and a hanging store
/// violates the contract just as lost data does.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A block device whose content can be replaced between two uses.
pub struct SwappableDevice(RwLock<Arc<dyn BlockDevice>>);

impl SwappableDevice {
    /// Creates the device with the content of `device`. A content that replaces it later must have
    /// the same length.
    pub fn new(device: Arc<dyn BlockDevice>) -> SwappableDevice {
        SwappableDevice(RwLock::new(device))
    }

    /// Replaces the content.
    pub fn put(&self, device: Arc<dyn BlockDevice>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = device;
    }

    fn get(&self) -> Arc<dyn BlockDevice> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl BlockDevice for SwappableDevice {
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

/// A served device and its worker process.
pub struct Station {
    // Declared before `served`, so that the worker ends first. A served device can be unmounted
    // only when it is not in use.
    worker: Worker,
    served: Served,
}

/// Result of waiting for a message from a worker.
pub enum Received {
    /// A response.
    Response(WorkerResponse),
    /// No message arrived before the deadline.
    Nothing,
    /// The worker process has exited.
    End(ExitStatus),
}

/// A worker process, which is killed on drop.
pub struct Worker {
    process: Child,
    is_lost: bool,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Station {
    /// Serves `device` in a directory below `work` and starts `command` as its worker.
    pub fn start(device: Arc<dyn BlockDevice>, desk: Arc<dyn Desk>, work: &Path, command: Command) -> Result<Station> {
        let front_end = FuseLoop { work: work.into(), attached: false };
        let served = front_end.serve(device, desk)?;
        Ok(Station { worker: Worker::start(command)?, served })
    }

    /// Returns the location of the device, in the form that requests to the worker contain.
    pub fn place(&self, engine: &str, options: &str) -> StoreLocation {
        let (image, mount_point) = (self.served.node().into(), self.served.mount_point());
        StoreLocation { image, mount_point, engine: engine.into(), options: options.into() }
    }

    /// Returns the path of the control file of the served device.
    pub fn control(&self) -> std::path::PathBuf {
        self.served.control()
    }

    /// Sends a request to the worker and returns its response. If the worker crashes or exceeds the
    /// timeout, the response is a violation, and the station cannot be used any more.
    pub fn run_request(&mut self, order: &WorkerRequest) -> Result<WorkerResponse> {
        self.worker.send(order)?;
        match self.worker.receive(REQUEST_TIMEOUT)? {
            Received::Response(WorkerResponse::Failed(why)) => bail!("{why}"),
            Received::Response(answer) => Ok(answer),
            Received::Nothing => {
                self.worker.is_lost = true;
                Ok(WorkerResponse::Broken(format!("HANGS: not finished after {REQUEST_TIMEOUT:?}")))
            }
            Received::End(status) => Ok(WorkerResponse::Broken(format!("DIES: the process ended with {status}"))),
        }
    }

    /// Returns whether the worker still accepts requests.
    pub fn is_usable(&self) -> bool {
        !self.worker.is_lost
    }
}

impl Worker {
    /// Starts `command` as a worker, which receives requests and sends responses.
    pub fn start(mut command: Command) -> Result<Worker> {
        // The worker has its own process group, because Ctrl-C must reach only the process that
        // runs the campaign.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().context("start a worker")?;
        let orders = process.stdin.take().expect("it is piped");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let (sender, answers) = channel();
        thread::spawn(move || {
            // A worker may be a test binary, whose test harness prints to the same output. Only
            // lines of JSON are therefore taken as responses.
            let answers = lines.map_while(Result::ok).filter(|line| line.starts_with('{'));
            answers.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Ok(Worker { process, is_lost: false, orders, answers })
    }

    /// Sends a request. If the worker has exited, this call does not return an error; the next call
    /// of [`receive`](Worker::receive) reports it.
    pub fn send(&mut self, order: &WorkerRequest) -> Result<()> {
        let line = serde_json::to_string(order)? + "\n";
        self.is_lost |= self.orders.write_all(line.as_bytes()).is_err();
        Ok(())
    }

    /// Waits for the next response, at most `timeout`.
    pub fn receive(&mut self, timeout: Duration) -> Result<Received> {
        match self.answers.recv_timeout(timeout) {
            Ok(line) => Ok(Received::Response(
                serde_json::from_str(&line).with_context(|| format!("parse a response: {line}"))?,
            )),
            Err(RecvTimeoutError::Timeout) => Ok(Received::Nothing),
            Err(RecvTimeoutError::Disconnected) => {
                self.is_lost = true;
                Ok(Received::End(self.process.wait().context("wait for the worker")?))
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
