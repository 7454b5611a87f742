//! The worker process of a crash test. It mounts a recorded device, fills a store on it, and
//! judges the crash states that a power cut may have left.
//!
//! The worker is a separate process for two reasons. A process that waits for a device must not be
//! the server of this device. An engine that crashes must not end the campaign. The worker has its
//! own mount namespace, and its loop devices are detached automatically, so nothing remains after
//! the worker has ended or was killed. The worker receives requests as JSON, one per line, and
//! sends responses in the same form.
pub use super::store_location::StoreLocation;

use super::{
    NegativeControl,
    fill::{Fill, FillError},
    guest,
    medium::MountedMedium,
    script::{Script, check_after, write_after},
};
use crate::target::{Engine, Target};
use anyhow::{Context, Result};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{BufRead, Write, stdin},
    path::{Path, PathBuf},
};
use terrace_device::serve;

/// A request to a worker: a task for a store, and the history (the batches) of this store.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerRequest {
    /// Location of the device.
    pub place: StoreLocation,
    /// The history of the store.
    pub script: Script,
    /// The work to do.
    pub task: Task,
}

/// The tasks that a worker can perform.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Formats the medium of the engine's stores.
    Format,
    /// Writes the batches of the history into a store.
    Fill {
        /// Number of the first batch to write. The store already contains the earlier ones.
        from: u64,
        /// File that receives the number of each batch that must survive from then on. Without a
        /// file, the worker sends these numbers as [marks](WorkerResponse::Mark) among the
        /// responses.
        control: Option<PathBuf>,
        /// The intentional fault that the crash tests must find, if any.
        broken: Option<NegativeControl>,
    },
    /// Mounts, opens and judges a store.
    Judge {
        /// Number of batches that the store must contain.
        promised: u64,
        /// Whether to open the store a second time, to compact and verify it, and to check the file
        /// system. An emulated machine does not check the file system.
        again: bool,
    },
}

/// The result of a request, or a message that precedes it.
#[derive(Debug, Serialize, Deserialize)]
pub enum WorkerResponse {
    /// The request succeeded. The store contains this number of batches.
    Applied(u64),
    /// All batches up to this number must survive from now on. More responses to the same request
    /// follow.
    Mark(u64),
    /// The store violates the durability contract. The text begins with one word in capitals.
    Broken(String),
    /// The worker could not run the request. The text says nothing about the store.
    Failed(String),
}

/// Runs a worker: serves requests until the input ends. `find` looks up engines by name.
///
/// # Errors
/// The process does not run as root. The failure of a request is not an error of this function but
/// a response.
pub fn serve(out: &mut dyn Write, find: &dyn Fn(&str) -> Result<Box<dyn Engine>>) -> Result<()> {
    if guest::is_guest_init() {
        return guest::run(&mut |orders, out| serve_all(orders, out, find));
    }
    unshare(CloneFlags::CLONE_NEWNS).context("create a mount namespace (needs root)")?;
    // Makes the mounts of this process private in one direction. The worker's own mounts stay in
    // its mount namespace, while unmounts by other processes take effect in it too. Otherwise a
    // file system that another process unmounts would stay in use until the worker ends. If the
    // parent namespace does not propagate unmounts, the first request removes the mounts on served
    // drives from this namespace.
    let slave = mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>);
    slave.context("make mounts private")?;
    serve_all(&mut stdin().lock(), out, find)
}

fn serve_all(
    orders: &mut dyn BufRead,
    out: &mut dyn Write,
    find: &dyn Fn(&str) -> Result<Box<dyn Engine>>,
) -> Result<()> {
    for line in orders.lines() {
        let order = serde_json::from_str(&line.context("read a request")?).context("parse a request")?;
        let answer =
            run_request(&order, out, find).unwrap_or_else(|error| WorkerResponse::Failed(format!("{error:#}")));
        send_response(out, &answer)?;
    }
    Ok(())
}

fn send_response(out: &mut dyn Write, answer: &WorkerResponse) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    Ok(out.flush()?)
}

fn run_request(
    order: &WorkerRequest,
    out: &mut dyn Write,
    find: &dyn Fn(&str) -> Result<Box<dyn Engine>>,
) -> Result<WorkerResponse> {
    let WorkerRequest { place, script, task } = order;
    let mut engine = find(&place.engine)?;
    let min_duration = script.size.min_duration(script.batches).unwrap_or_else(|| engine.shorten_timers());
    if !guest::is_guest_init() {
        serve::let_go_of_others(&place.image)?;
    }
    if let Task::Format = task {
        MountedMedium::make(place, &*engine, &script.size.settings())?;
        return Ok(WorkerResponse::Applied(0));
    }
    let ground = match MountedMedium::enter(place, engine.below())? {
        Ok(ground) => ground,
        Err(broken) => return Ok(WorkerResponse::Broken(broken)),
    };
    let verdict = match task {
        Task::Format => unreachable!("handled above"),
        Task::Fill { from, control, broken } => {
            if *broken == Some(NegativeControl::EarlyDurability) {
                engine.claim_early_durability()?;
            }
            let control = control.as_ref().map(|path| File::options().write(true).open(path)).transpose();
            let control = control.context("open the control file")?;
            let (script, dir) = (*script, ground.store());
            let fill = Fill { engine: &*engine, dir: &dir, script, from: *from, min_duration, broken: *broken };
            let filled = fill.run(&mut |number| match &control {
                Some(file) => (&*file).write_all(format!("mark {number}").as_bytes()).context("set a mark"),
                None => send_response(out, &WorkerResponse::Mark(number)),
            });
            match filled {
                Ok(()) => Ok(script.batches),
                // The worker returns without unmounting, because the campaign may cut the power at
                // any moment.
                Err(FillError::Broken(broken)) => return Ok(WorkerResponse::Broken(broken)),
                Err(FillError::ReportFailed(error)) => return Err(error),
            }
        }
        Task::Judge { promised, again } => judge(&*engine, &ground.store(), *script, *promised, *again)
            .and_then(|applied| ground.sound().map(|()| applied)),
    };
    let left = ground.leave(matches!((&verdict, task), (Ok(_), Task::Judge { again: true, .. })));
    match verdict {
        Ok(applied) => Ok(left?.map_or_else(WorkerResponse::Broken, |()| WorkerResponse::Applied(applied))),
        // The medium stays mounted, because the store that failed may still use it.
        Err(broken) => Ok(WorkerResponse::Broken(broken)),
    }
}

/// Judges a store. If `again`, also reopens the store, compacts it and verifies all of its data,
/// so that the recovered data is read and rewritten.
fn judge(engine: &dyn Engine, dir: &Path, script: Script, promised: u64, again: bool) -> Result<u64, String> {
    let open = || engine.open(dir, &script.size.settings()).map_err(|error| format!("OPEN: {error:#}"));
    let close = |store: Box<dyn Target>| store.close().map_err(|error| format!("CLOSE: {error:#}"));
    let store = open()?;
    let applied = script.judge(promised, &*store)?;
    write_after(&*store)?;
    close(store)?;
    if again {
        let store = open()?;
        check_after(&*store)?;
        let same = |when: &str| match script.judge(applied, &*store)? {
            prefix if prefix == applied => Ok(()),
            _ => Err(format!("WRONG: {when}, the store contains another prefix")),
        };
        same("opened a second time")?;
        store.compact().map_err(|error| format!("COMPACT: {error:#}"))?;
        same("compacted")?;
        close(store)?;
        engine.check(dir).map_err(|error| format!("CHECK: {error:#}"))?;
    }
    Ok(applied)
}
