//! `ssd serve`: a virtual drive as a block device.
use crate::args::Usage;
use anyhow::{Result, bail};
use serde_json::json;
use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_device::{
    BlockDevice, Memory,
    record::Recorder,
    serve::{FrontEnd, FuseLoop, NoDesk, ready_process, ublk},
};
use terrace_lab::{device::parse_size, plan::stop};

/// Serves a virtual drive as a block device, until Ctrl-C.
///
/// Prints the device, on which mkfs, mount and any database work, and two files: `stats` tells what was asked of the drive so
/// far, as JSON. On Ctrl-C file systems on the drive are unmounted and it goes; what it held is lost. After a kill, `terrace
/// ssd cleanup` removes what is left. Needs root, /dev/fuse and loop devices.
#[derive(clap::Args)]
pub struct Serve {
    /// Size of the drive.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: String,
    /// Writes every write, flush, discard and zeroing to this file, in order, with its data; it must not lie on the drive.
    /// `echo "mark 7" > CONTROL` puts a mark among them.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Where its mount point is made; not on the drive itself. Default: the system's temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Serve {
    /// Serves in the foreground.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let bytes = parse_size(&self.size).map_err(|error| Usage::of("--size", error))?;
        let memory = Memory::new(bytes).map_err(|error| Usage::of("--size", error))?;
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        let front_end = FuseLoop { work, attached: true };
        if let Err(reason) = front_end.available() {
            bail!("cannot serve a block device here: {reason}; {}", ublk());
        }
        let stop = stop::on_signal()?; // before there are threads
        ready_process().iter().for_each(|refused| eprintln!("note: could not {refused}"));
        let memory: Arc<dyn BlockDevice> = Arc::new(memory);
        let recorder =
            self.record.as_ref().map(|file| Recorder::new(memory.clone(), file).map(Arc::new)).transpose()?;
        let mut served = match &recorder {
            Some(recorder) => front_end.serve(recorder.clone(), recorder.clone())?,
            None => front_end.serve(memory, Arc::new(NoDesk))?,
        };
        let (node, stats, control) = (served.node().to_owned(), served.stats(), served.control());
        if self.json {
            let object = json!({ "device": node, "bytes": bytes, "front_end": front_end.name(), "stats": stats,
                "control": control, "pid": std::process::id() });
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "{}\nstats    {}\ncontrol  {}", node.display(), stats.display(), control.display())?;
        }
        out.flush()?;
        eprintln!("serving; Ctrl-C ends it");
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        while let Err(error) = served.stop() {
            eprintln!("still in use: {error}; waiting. Ctrl-C again ends it at once, then `terrace ssd cleanup`");
        }
        Ok(recorder.map_or(Ok(()), |recorder| recorder.finish())?)
    }
}
