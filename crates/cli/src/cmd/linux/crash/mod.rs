//! `crash`: tests durability with simulated power cuts.
pub mod worker;

use crate::{args::Usage, cmd::linux::bench::engines};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use terrace::DurabilityMode;
use terrace_device::serve::{FrontEnd, FuseLoop, ublk};
use terrace_lab::{
    crash::{Campaign, NegativeControl, Tally, block, drive, emulator::Emulator, machine, seam},
    engines::terrace::Terrace,
    plan::stop,
    target::StoreMedium,
};

/// Simulates power cuts and checks each crash state (a disk content that a power cut can leave).
/// Exits with 1 if a state breaks the durability contract.
///
/// With --level block, a store is filled on ext4 on a device that records every write, flush and
/// discard. Crash states are derived from the recording: each has everything flushed, and any part
/// of the later requests, torn and reordered. Each state is mounted, so that ext4 replays its
/// journal, and the store is opened. Every write acknowledged as synced must be present, all other
/// writes must be a prefix of the history, and the store must accept new writes. Failing states
/// are kept as files, with the command that replays them. Requires Linux and root. --level seam
/// does the same on a directory in memory, with thousands of states per second and without root.
/// --level machine kills an emulated machine while it fills a store, boots it from the contents of
/// its disk, checks the store and continues; each kill is one state. It requires QEMU and a kernel
/// (make machine). --level drive cuts the power of a drive on this machine while several threads
/// write, read and compact a store of tens of MiB. Stores on a raw device use the recorded device
/// directly.
#[derive(clap::Args)]
pub struct Crash {
    /// block: a recorded device below a real ext4. seam: a directory in memory with the guarantees
    /// of ext4 and of POSIX; terrace presets only. machine: an emulated machine that is killed;
    /// terrace presets only. drive: one store on a drive that loses its power many times under
    /// load; terrace presets only.
    #[arg(long, value_name = "LEVEL", default_value = "block", value_parser = ["block", "drive", "machine", "seam"])]
    level: String,
    /// terrace, terrace:PRESET, terrace:PRESET+OPTION=VALUE, leveldb, or another engine of
    /// `terrace bench --list engines`.
    #[arg(long, value_name = "NAME", default_value = "terrace")]
    engine: String,
    /// Seed of the first history. The following histories have the following numbers. Equal seeds
    /// write equal histories.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Stop after this many states. Default: 1000 at level block, 100000 at seam, 20 at machine,
    /// 100 at drive; unlimited with --seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    states: Option<u64>,
    /// Stop after this time. It starts with the first check.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Batches per history. Default: 500 at level block, 2000 at machine, 100000 at drive. At level
    /// seam the length is fixed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batches: Option<u64>,
    /// Number of states that are checked in parallel. The levels machine and drive check one at a
    /// time. Default: one per processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    workers: Option<u64>,
    /// Negative control: break something on purpose, and exit with 1 if no check finds it.
    /// ignored-flushes: the device ignores flushes. no-barrier: ext4 sends no flushes. unsynced:
    /// the engine skips syncs. early-durability: the durability tracker reports files durable too
    /// early.
    #[arg(long, value_name = "NAME")]
    control: Option<String>,
    /// Directory for failing states and the device's recording. With --control nothing is kept
    /// unless this is given. Default: crash-states.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Check one kept state again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["control", "level", "states", "seconds"])]
    replay: Option<PathBuf>,
    /// Directory for recordings and mount points. Default: the system's temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Crash {
    /// Runs a campaign (many power cuts and checks), or replays one state.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let control = self.control.as_deref().map(str::parse).transpose();
        let control: Option<NegativeControl> = control.map_err(|error| Usage::of("--control", error))?;
        let engine = engines::find(&self.engine).map_err(|error| Usage::of("--engine", error))?;
        self.refuse_promiseless()?;
        self.refuse_of(engine.below(), control)?;
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        if self.level == "seam" {
            self.refuse_beyond_seam(control)?;
        } else if let Err(reason) = (FuseLoop { work: work.clone(), attached: false }).available() {
            bail!("cannot serve a block device here: {reason}; {}", ublk());
        }
        let stop = stop::on_signal()?; // before threads start
        if let Some(file) = &self.replay {
            return self.replay(file, &work, out);
        }
        let (states, batches) = match self.level.as_str() {
            "seam" => (100_000, 500),
            "machine" => (20, 2000),
            "drive" => (100, 100_000),
            _ => (1000, 500),
        };
        let campaign = Campaign {
            engine: self.engine.clone(),
            seed: self.seed,
            batches: self.batches.unwrap_or(batches),
            states: self.states.or((self.seconds.is_none()).then_some(states)),
            time: self.seconds.map(Duration::from_secs),
            workers: self.workers.map_or_else(processors, |workers| workers as usize),
            control,
            work,
            keep: self.keep.clone().or_else(|| control.is_none().then(|| "crash-states".into())),
        };
        let mut watch = progress(&campaign, stop);
        let tally = match self.level.as_str() {
            "seam" => seam::run(&campaign, &mut watch)?,
            "machine" => {
                let emulator = Emulator::find().map_err(anyhow::Error::msg)?;
                machine::run(&campaign, &emulator, &worker_command(), &mut watch)?
            }
            "drive" => drive::run(&campaign, &worker_command, &mut watch)?,
            _ => block::run(&campaign, &worker_command, &mut watch)?,
        };
        self.print(&campaign, &tally, out)?;
        tally.verdict(control).map_err(anyhow::Error::msg)
    }

    /// Rejects a preset with durability mode `none`, because it has no durability contract to
    /// check.
    fn refuse_promiseless(&self) -> Result<()> {
        let preset = self.engine.strip_prefix("terrace:").map(|preset| Terrace::new(Some(preset))).transpose()?;
        match preset.is_some_and(|preset| preset.base().durability == DurabilityMode::None) {
            true => Err(Usage::of("--engine", format!("{} has no durability across a power cut", self.engine))),
            false => Ok(()),
        }
    }

    /// Rejects combinations of level, engine and control that are not supported.
    fn refuse_of(&self, below: StoreMedium, control: Option<NegativeControl>) -> Result<()> {
        let name = &self.engine;
        if self.level != "block" && name.split(':').next() != Some("terrace") {
            return Err(Usage::of("--engine", format!("this level supports terrace presets only, not {name}")));
        }
        if self.level == "machine" && below == StoreMedium::Both {
            return Err(Usage::of("--engine", format!("{name}: the emulated machine cannot prepare a split store")));
        }
        match control {
            Some(NegativeControl::NoBarrier | NegativeControl::EarlyDurability) if below != StoreMedium::FileSystem => {
                Err(Usage::of(
                    "--control",
                    format!("this control breaks a file system; stores of {name} are on a raw device"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Rejects flags that the seam level does not support: it has no device, and it tries every
    /// durability mode itself.
    fn refuse_beyond_seam(&self, control: Option<NegativeControl>) -> Result<()> {
        if self.engine.contains("+durability=") {
            return Err(Usage::of("--engine", format!("{}: the seam level tries every durability mode", self.engine)));
        }
        match control {
            None | Some(NegativeControl::Unsynced | NegativeControl::EarlyDurability) => Ok(()),
            Some(_) => Err(Usage::of("--control", "this control breaks a device; the seam level has none")),
        }
    }

    fn replay(&self, file: &Path, work: &Path, out: &mut dyn Write) -> Result<()> {
        let verdict = block::replay(file, work, &worker_command)?;
        if self.json {
            writeln!(
                out,
                "{}",
                json!({ "ok": verdict.is_ok(), "applied": verdict.as_ref().ok(), "reason": verdict.as_ref().err() })
            )?;
        } else if let Ok(applied) = &verdict {
            writeln!(out, "the contract holds: {applied} batches are present")?;
        }
        verdict.map(drop).map_err(|reason| anyhow::anyhow!("{reason}"))
    }

    fn print(&self, campaign: &Campaign, tally: &Tally, out: &mut dyn Write) -> Result<()> {
        let Tally { histories, events, states, failed, by_kind, first, kept, subsets, subsets_judged, seconds, .. } =
            tally;
        let per_second = *states as f64 / seconds.max(f64::EPSILON);
        if self.json {
            // At the seam level, histories have a fixed length and no device requests are recorded.
            let is_recorded = self.level != "seam";
            let (batches, events) = (is_recorded.then_some(campaign.batches), is_recorded.then_some(events));
            let object = json!({ "level": self.level, "engine": self.engine, "seed": self.seed, "batches": batches, "control": self.control,
                "histories": histories, "events": events, "states": states, "subsets": subsets,
                "subsets_judged": subsets_judged, "failed": failed, "by_kind": by_kind, "first": first, "kept": kept, "seconds": seconds, "states_per_second": per_second });
            return Ok(writeln!(out, "{object}")?);
        }
        writeln!(
            out,
            "{}: {states} states of {histories} histories, {failed} broken; {seconds:.0} s, {per_second:.1} states/s",
            self.engine
        )?;
        if *subsets > 0 {
            writeln!(out, "  {subsets_judged} of {subsets} subsets of the requests between two flushes")?;
        }
        by_kind.iter().try_for_each(|(kind, count)| writeln!(out, "  {kind:6} {count}"))?;
        first.iter().try_for_each(|first| writeln!(out, "first: {first}"))?;
        kept.iter().try_for_each(|file| writeln!(out, "replay: terrace crash --replay {}", file.display()))?;
        Ok(())
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

/// Returns the command that starts this program as a worker.
fn worker_command() -> Command {
    let own = std::env::current_exe().context("this program's path").unwrap_or_else(|_| "terrace".into());
    let mut command = Command::new(own);
    command.arg(worker::NAME);
    command
}

/// Shows the number of checked states on a terminal, and ends the campaign on Ctrl-C.
fn progress<'a>(campaign: &Campaign, stop: &'a AtomicBool) -> impl FnMut(&Tally) -> bool + 'a {
    let bar = campaign.states.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    let style = "{elapsed} {wide_bar} {pos}/{len} states, {msg}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    move |tally| {
        bar.set_position(tally.states);
        bar.set_message(format!("{} broken", tally.failed));
        !stop.load(Ordering::Relaxed)
    }
}
