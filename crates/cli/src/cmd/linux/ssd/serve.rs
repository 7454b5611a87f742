//! `ssd serve`: serves a virtual SSD as a block device.
use super::drive::Drive;
use anyhow::{Result, bail};
use serde_json::json;
use std::{
    io::{self, Write},
    num::NonZeroU64,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use terrace::parse_size;
use terrace_device::{
    BlockDevice, Deaf, File, Memory, Pace, Slow,
    record::Recorder,
    serve::{Desk, FrontEnd, FuseLoop, NoDesk, limits, ready_process, ublk},
    ssd::{Image, Ssd},
};
use terrace_lab::{device::parse_rate, plan::stop};

/// Serves a virtual SSD as a block device until Ctrl-C.
///
/// Prints the path of the device, on which mkfs, mount and any database work. Also prints the
/// paths of two files: `stats` has request counters and the bytes programmed into flash, as JSON;
/// `control` accepts commands. Ctrl-C unmounts file systems on the drive and removes the drive. A
/// drive in a directory keeps its contents; any other drive is in memory and loses them. After a
/// kill, `terrace ssd cleanup` removes the remains. Requires root, /dev/fuse and loop devices.
#[derive(clap::Args)]
pub struct Serve {
    /// Directory of a drive created by `terrace ssd create`.
    #[arg(value_name = "DIR", conflicts_with_all = ["profile", "size", "seed", "state"])]
    directory: Option<PathBuf>,
    #[command(flatten)]
    drive: Drive,
    /// Serve this much memory instead of a virtual SSD. It shows the effect of --flush-us without
    /// the processor time of a simulated drive. From Linux 6.9 on, the kernel accesses that memory
    /// directly, and `stats` does not count those accesses.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["directory", "profile", "size", "seed", "state", "record"])]
    memory: Option<u64>,
    /// Record every write, flush, discard and zeroing with its data in this file. The file must not
    /// be on the drive. `echo "mark 7" > CONTROL` inserts a mark.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Additional duration of each flush in microseconds, to simulate the flush latency of another
    /// drive.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    flush_us: u64,
    /// Maximum transfer rate per second. With --memory the kernel enforces the rate where it can
    /// (in the root blkio cgroup of version 1). Then reads and writes each have this rate and
    /// bypass the server. Otherwise reads and writes share the rate.
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    bytes_per_s: Option<u64>,
    /// Reject discards, like a drive without TRIM.
    #[arg(long)]
    no_discard: bool,
    /// Directory for the mount point. It must not be on the drive itself. Default: the system's
    /// temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Also stop when standard input is closed. For programs that start this command.
    #[arg(long)]
    until_eof: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Serve {
    /// Serves the drive in the foreground.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        let front_end = FuseLoop { work, attached: true };
        if let Err(reason) = front_end.available() {
            bail!("cannot serve a block device here: {reason}; {}", ublk());
        }
        let stop = stop::on_signal()?; // before threads start
        if let Some(bytes) = self.memory {
            let file = File::in_memory(bytes)?;
            return self.serve(&front_end, Arc::new(file), Arc::new(NoDesk), stop, out);
        }
        let (ssd, image) = self.ssd()?;
        let recorder = self.record.as_ref().map(|file| Recorder::new(ssd.clone(), file).map(Arc::new)).transpose()?;
        let desk = Arc::new(Both { ssd: ssd.clone(), recorder: recorder.clone() });
        let device: Arc<dyn BlockDevice> = recorder.clone().map_or(ssd as _, |recorder| recorder as _);
        let served = self.serve(&front_end, device, desk, stop, out);
        recorder.map_or(Ok(()), |recorder| recorder.finish())?;
        image.map_or(Ok(()), Image::close)?;
        served
    }

    /// Serves the drive until Ctrl-C.
    fn serve(
        &self,
        front_end: &FuseLoop,
        mut device: Arc<dyn BlockDevice>,
        desk: Arc<dyn Desk>,
        stop: &'static AtomicBool,
        out: &mut dyn Write,
    ) -> Result<()> {
        ready_process().iter().for_each(|refused| eprintln!("note: could not {refused}"));
        let bytes = device.len_bytes();
        if self.no_discard {
            device = Arc::new(Deaf::new(device));
        }
        // The kernel can limit only a drive in plain memory. It cannot limit a virtual SSD, because
        // all transfers of a virtual SSD pass through this process.
        let by_kernel = self.bytes_per_s.and_then(NonZeroU64::new);
        let by_kernel = by_kernel.filter(|_| self.memory.is_some() && limits::available().is_ok());
        let by_server = self.bytes_per_s.filter(|_| by_kernel.is_none());
        let pace = Pace { flush: Duration::from_micros(self.flush_us), bytes_per_s: by_server };
        if pace != Pace::default() {
            device = Arc::new(Slow::new(device, pace));
        }
        let mut served = front_end.serve(device, desk)?;
        by_kernel.map_or(Ok(()), |bytes_per_s| served.limit(bytes_per_s))?;
        let (node, stats, control) = (served.node().to_owned(), served.stats(), served.control());
        if self.json {
            let object = json!({ "device": node, "bytes": bytes, "front_end": front_end.name(), "stats": stats,
                "control": control, "pid": std::process::id() });
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "{}\nstats    {}\ncontrol  {}", node.display(), stats.display(), control.display())?;
        }
        out.flush()?;
        if self.until_eof {
            thread::spawn(|| {
                let _ = io::copy(&mut io::stdin().lock(), &mut io::sink()); // only its end matters
                stop.store(true, Ordering::Relaxed);
            });
        }
        eprintln!("serving; press Ctrl-C to stop");
        while !stop.load(Ordering::Relaxed) && served.is_served() {
            thread::sleep(Duration::from_millis(50));
        }
        let was_served = served.is_served();
        loop {
            match served.stop() {
                Err(error) if was_served => {
                    eprintln!(
                        "still in use: {error}; waiting. press Ctrl-C again to stop at once, then run `terrace ssd cleanup`"
                    );
                }
                stopped => break stopped?,
            }
        }
        if !was_served {
            bail!("{} was unmounted by another process: serving ended", node.display());
        }
        Ok(())
    }

    /// Returns the drive, and its directory if it is persistent.
    fn ssd(&self) -> Result<(Arc<Ssd>, Option<Image>)> {
        let Some(directory) = &self.directory else {
            let ftl = self.drive.make()?;
            let below = Memory::new(ftl.profile().capacity_bytes)?;
            return Ok((Arc::new(Ssd::with(ftl, Box::new(below))?), None));
        };
        let image = Image::open(directory)?;
        if image.was_cut() {
            eprintln!(
                "note: {} was not closed properly: its data are complete, its counters are older",
                directory.display()
            );
        }
        Ok((image.drive().clone(), Some(image)))
    }
}

/// Serves two files of the drive: provides the contents of `stats` and executes the commands of
/// `control`. The statistics come from the drive. If there is a recorder, it adds its own
/// statistics and executes the commands.
struct Both {
    ssd: Arc<Ssd>,
    recorder: Option<Arc<Recorder>>,
}

impl Desk for Both {
    fn stats(&self) -> String {
        let recorder = self.recorder.as_ref().map_or("null".into(), |recorder| recorder.stats());
        format!("{{\"ssd\":{},\"recorder\":{recorder}}}", self.ssd.stats())
    }

    fn order(&self, order: &str) -> std::result::Result<(), String> {
        match &self.recorder {
            Some(recorder) => recorder.order(order),
            None => Err(format!("'{order}': the drive is not recorded and accepts no commands")),
        }
    }
}
