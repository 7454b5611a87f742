//! `crash`: what is left after a power cut?
pub mod worker;

use crate::{args::Usage, cmd::bench::engines};
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
    crash::{Campaign, Control, Tally, block, drive, emulator::Emulator, machine, seam},
    engines::terrace::Terrace,
    plan::stop,
    target::Below,
};

/// Cuts the power, on paper, and judges what is left. Exits 1 if the contract is broken.
///
/// A store is filled on an ext4 on a device that records every write, flush and discard. Then states that a power cut could
/// have left are made: all that was flushed, and any part of what came later, torn and out of order. Each is mounted, so that
/// ext4 replays its journal, and opened; every write that was acknowledged as synced must be there, of the rest a prefix of
/// the history, and the store must take writes again. Failing states are kept as files, with the command that replays them.
/// This takes Linux and root. --level seam does the same on a directory in memory, thousands of states a second, without root.
/// --level machine kills an emulated machine while it fills a store, boots it again with what its disk had kept, judges the store and
/// goes on; a state is a kill. This takes QEMU and a kernel (make machine), too. --level drive does so on this machine: a drive loses its
/// power while a store of tens of MiB on it is written, read and compacted by several threads.
/// A preset whose stores lie on a device without a file system has the recorded device as it is.
#[derive(clap::Args)]
pub struct Crash {
    /// block: on a recorded device below a real ext4. seam: on a directory in memory that follows ext4's rules, and POSIX's; for
    /// presets of terrace alone. machine: on an emulated machine that is killed; for presets of terrace alone. drive: on a drive under
    /// load that loses its power, one store through many cuts; for presets of terrace alone.
    #[arg(long, value_name = "LEVEL", default_value = "block", value_parser = ["block", "drive", "machine", "seam"])]
    level: String,
    /// terrace, terrace:PRESET, terrace:PRESET+OPTION=VALUE, leveldb, or any other that `terrace bench --list engines` shows.
    #[arg(long, value_name = "NAME", default_value = "terrace")]
    engine: String,
    /// Of the first history; the next one has the next number. Equal seeds write equal histories.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ends after so many states. Default: 1000, at the seam 100000, of machines 20, of drives 100, unless --seconds is given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    states: Option<u64>,
    /// Ends after so long, from when the first state is judged.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Batches written in each history; at the seam it has a length of its own. Default: 500, for machines 2000, for drives 100000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    batches: Option<u64>,
    /// States judged side by side; machines and drives come one at a time. Default: one for each processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    workers: Option<u64>,
    /// Breaks something on purpose, and exits 1 if that is not found: ignored-flushes (by the device), no-barrier (ext4 sends no
    /// flushes), unsynced (the engine does not sync what it says it did), early-tickets (its tracker calls files durable that are
    /// not).
    #[arg(long, value_name = "NAME")]
    control: Option<String>,
    /// Where failing states are kept, with the record of the device; under --control, only if this is given. Default: crash-states.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Judges one kept state again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["control", "level", "states", "seconds"])]
    replay: Option<PathBuf>,
    /// Where records and mount points are made. Default: the system's temporary directory.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Crash {
    /// Runs a campaign, or replays a state.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let control = self.control.as_deref().map(str::parse).transpose();
        let control: Option<Control> = control.map_err(|error| Usage::of("--control", error))?;
        let engine = engines::find(&self.engine).map_err(|error| Usage::of("--engine", error))?;
        self.refuse_promiseless()?;
        self.refuse_of(engine.below(), control)?;
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        if self.level == "seam" {
            self.refuse_beyond_seam(control)?;
        } else if let Err(reason) = (FuseLoop { work: work.clone(), attached: false }).available() {
            bail!("cannot serve a block device here: {reason}; {}", ublk());
        }
        let stop = stop::on_signal()?; // before there are threads
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

    /// A preset that promises nothing at a power cut has no contract to break.
    fn refuse_promiseless(&self) -> Result<()> {
        let preset = self.engine.strip_prefix("terrace:").map(|preset| Terrace::new(Some(preset))).transpose()?;
        match preset.is_some_and(|preset| preset.base().durability == DurabilityMode::None) {
            true => Err(Usage::of("--engine", format!("{} promises nothing at a power cut", self.engine))),
            false => Ok(()),
        }
    }

    /// What a level cannot do with such an engine, or a control with what its stores lie on.
    fn refuse_of(&self, below: Below, control: Option<Control>) -> Result<()> {
        let name = &self.engine;
        if self.level != "block" && name.split(':').next() != Some("terrace") {
            return Err(Usage::of("--engine", format!("at this level there are only presets of terrace, no {name}")));
        }
        if self.level == "machine" && below == Below::Both {
            return Err(Usage::of("--engine", format!("{name}: a machine has no tools to divide its disk")));
        }
        match control {
            Some(Control::NoBarrier | Control::EarlyTickets) if below != Below::FileSystem => {
                Err(Usage::of("--control", format!("it is about a file system; stores of {name} lie on a device")))
            }
            _ => Ok(()),
        }
    }

    /// At the seam there is no device, and every tier is tried.
    fn refuse_beyond_seam(&self, control: Option<Control>) -> Result<()> {
        if self.engine.contains("+durability=") {
            return Err(Usage::of("--engine", format!("{}: at the seam every tier is tried", self.engine)));
        }
        match control {
            None | Some(Control::Unsynced | Control::EarlyTickets) => Ok(()),
            Some(_) => Err(Usage::of("--control", "it is about a device; at the seam there is none")),
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
            writeln!(out, "the contract holds: {applied} batches are there")?;
        }
        verdict.map(drop).map_err(|reason| anyhow::anyhow!("{reason}"))
    }

    fn print(&self, campaign: &Campaign, tally: &Tally, out: &mut dyn Write) -> Result<()> {
        let Tally { histories, events, states, failed, by_kind, first, kept, subsets, subsets_judged, seconds, .. } =
            tally;
        let per_second = *states as f64 / seconds.max(f64::EPSILON);
        if self.json {
            // At the seam a history has a length of its own, and no requests are recorded.
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
            writeln!(
                out,
                "  {subsets_judged} of {subsets} subsets of what lay between two flushes, few requests each"
            )?;
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

/// This program again, as a worker.
fn worker_command() -> Command {
    let own = std::env::current_exe().context("this program's path").unwrap_or_else(|_| "terrace".into());
    let mut command = Command::new(own);
    command.arg(worker::NAME);
    command
}

/// Shows the tally on a terminal, and ends the campaign on Ctrl-C.
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
