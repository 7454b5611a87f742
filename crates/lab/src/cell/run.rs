//! Runs a cell (one engine in one round): opens an empty store, runs and measures each stage of
//! its workloads, and closes the store.
use super::{
    CellSpec, Event, Progress, Row,
    account::{self, EngineCountsPair},
    cost,
    memory::MemoryGroup,
    processors,
    row::preset_in,
};
use crate::{
    ledger::{Ledger, PeakSpace, Peaks, device_bytes, settle, space},
    machine::{self, Machine},
    target::{Engine, EngineBuild, Target},
    workload::{self, Job, Stage, store::Store},
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    fs, thread,
    time::{Duration, Instant, SystemTime},
};

/// A function that looks up an engine by its name.
pub type Engines<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Engine>>;

/// Maximum time to wait, after the engine has finished its work, until the version edits that it
/// has installed are durable. The time is six times the default commit interval of ext4's journal.
const PENDING_MAX: Duration = Duration::from_secs(30);

/// Runs the workloads of `spec` in order on one new store. Emits a row for each stage (measured
/// part) of each workload.
///
/// If the store returns a wrong result, the engine returns an error, or the disk is full, the cell
/// ends. The last row then belongs to the stage that failed, and contains the error message. If
/// the engine is not available, every row contains this error. The function returns an error only
/// for a `spec` that no engine could run.
pub fn run_cell(spec: &CellSpec, engines: Engines<'_>, emit: &mut dyn FnMut(Event)) -> Result<()> {
    workload::validate(spec)?;
    spec.processors.map_or(Ok(()), processors::keep_to)?;
    let memory = spec.memory.map(MemoryGroup::enter).transpose()?;
    let mut stages = Vec::new();
    for name in &spec.workloads {
        stages.extend(workload::stages(name)?);
    }
    let mut blank = Row { machine: Machine::here(&spec.dir), ..Row::blank(spec) };
    let (engine, build) = match find(spec, engines) {
        Ok(found) => found,
        Err(error) => {
            stages.iter().for_each(|stage| emit(failed(&blank, stage.name(), &error)));
            return Ok(());
        }
    };
    blank.version.clone_from(&build.version);
    blank.build = Some(build);
    blank.preset = preset_in(&engine.name()); // the default preset has a name too
    blank.departures = engine.departures(&spec.settings);
    blank.driver = Some(cost::driver(spec)?);

    fs::create_dir_all(&spec.dir).with_context(|| format!("make {}", spec.dir.display()))?;
    // The ledger counts the I/O of two groups of threads: those that exist when the ledger is
    // opened, and those that these threads start later. It must therefore be open before the engine
    // starts its threads.
    let mut ledger = Ledger::open(&spec.dir, spec.device.as_deref());
    let mut store = match Store::create(&*engine, spec) {
        Ok(store) => store,
        Err(error) => {
            emit(failed(&blank, stages[0].name(), &error));
            return Ok(());
        }
    };
    for (index, stage) in stages.iter().enumerate() {
        let job = Job::new(spec, &stage.name(), index);
        let limited = memory.as_ref().map_or(Ok(()), |memory| memory.limited(stage.only_reads()));
        match limited.and_then(|()| measure(&**stage, &mut store, &job, &mut ledger, &blank, emit)) {
            Ok(row) => emit(Event::Row(Box::new(row))),
            Err(error) => {
                emit(failed(&blank, stage.name(), &error));
                return Ok(());
            }
        }
    }
    let closed = memory.as_ref().map_or(Ok(()), |memory| memory.limited(false)).and_then(|()| store.close());
    if let Err(error) = closed {
        emit(failed(&blank, "close".into(), &error));
    }
    Ok(())
}

/// Interval between two progress reports while the engine's background work finishes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

fn find(spec: &CellSpec, engines: Engines<'_>) -> Result<(Box<dyn Engine>, EngineBuild)> {
    let engine = engines(&spec.engine)?;
    let build = engine.build().map_err(|how| anyhow!("{} is not available: {how}", spec.engine))?;
    Ok((engine, build))
}

fn failed(blank: &Row, workload: String, error: &anyhow::Error) -> Event {
    Event::Row(Box::new(Row { workload, error: Some(format!("{error:#}")), ..blank.clone() }))
}

/// Runs one stage: prepares the store, measures the work, and waits until background work has
/// finished.
fn measure(
    stage: &dyn Stage,
    store: &mut Store<'_>,
    job: &Job<'_>,
    ledger: &mut Ledger,
    blank: &Row,
    emit: &mut dyn FnMut(Event),
) -> Result<Row> {
    stage.prepare(store, job)?;
    let began = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut row = Row { workload: stage.name(), began: Some(began), load_before: machine::load(), ..blank.clone() };
    let total = stage.total(store, job);
    let mut report = |phase: &str, done| {
        let progress = Progress { workload: stage.name(), phase: phase.into(), done, total };
        emit(Event::Progress { progress });
    };

    let start = store.target().counters();
    // A stage that only reads must start with cold caches. Its peak size is not measured, because
    // the measurement lists all files of the store repeatedly and would warm the caches.
    let space_peak = (!stage.only_reads()).then(|| PeakSpace::start(store.dir()));
    let peaks = Peaks::start();
    let drive_before = ledger.query_drive();
    let before = ledger.mark();
    let outcome = stage.run(store, job, &mut |done| report("run", done))?;
    let mut reported = Duration::ZERO;
    let settled = settle(ledger, &mut |waited| {
        if waited - reported >= PROGRESS_INTERVAL {
            reported = waited;
            report("settle", outcome.tally.ops);
        }
    });
    let settled = settled.context("wait for the end of background work")?;
    let pending = await_pending(store.target());
    let after = ledger.mark();
    let drive_after = ledger.query_drive();
    let (peaks, space_peak) = (peaks.finish(), space_peak.and_then(PeakSpace::finish));

    let own = EngineCountsPair { start, settled: store.target().counters() };
    let mut delta = after.since(&before);
    if let (Some(then), Some(now)) = (drive_before, drive_after) {
        delta.add_flash(then, now);
    }
    if let Some(trouble) = &delta.trouble {
        bail!("not reported: {trouble}");
    }
    account::fill(&mut row, &outcome, (!stage.reopens()).then_some(&own), delta);
    row.settle_seconds = Some(settled.seconds);
    row.settle_sync_seconds = Some(settled.sync_seconds);
    row.settled = Some(settled.settled);
    if pending > 0 {
        row.notes
            .push(format!("{pending} changes were not durable after {PENDING_MAX:?}: the obsolete data takes space"));
    }
    row.peak_rss_bytes = peaks.rss_bytes;
    row.peak_anon_bytes = peaks.anon_bytes;
    row.load_after = machine::load();
    let content = &store.content;
    row.key_size = content.keys.len_of(0);
    row.value_size = content.values.size();
    if store.is_in_file_system() {
        row.space_peak_bytes = space_peak;
        row.space_bytes = Some(space(store.dir())?);
    } else if let (Some(free), Some(all)) = (own.settled.free_bytes, device_bytes(store.dir())?) {
        row.space_bytes = Some(all.saturating_sub(free));
    }
    row.sa = row.space_bytes.and_then(|space| account::ratio(space as f64, content.live_bytes() as f64));
    if let Some(driver) = &mut row.driver {
        driver.memory_bytes = content.memory_bytes();
    }
    Ok(row)
}

/// Waits until all version edits are durable, at most for [`PENDING_MAX`]. Only then does the
/// engine remove obsolete files, and this removal is a part of the stage. The wait is not part of
/// the settle time, because the engine does no work meanwhile. Returns the count of edits that are
/// still not durable.
fn await_pending(target: &dyn Target) -> u64 {
    let start = Instant::now();
    loop {
        match target.pending() {
            waiting if waiting > 0 && start.elapsed() < PENDING_MAX => thread::sleep(Duration::from_millis(20)),
            waiting => return waiting,
        }
    }
}
