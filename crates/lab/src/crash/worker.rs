//! The process that mounts: fills a store on a recorded device, and judges the states that a power cut may have left.
//!
//! It is a process of its own because whoever waits for a device must not be its server, and because an engine that falls
//! over must not take the campaign with it. Its mounts are in a name space of their own and its loop devices clear
//! themselves, so nothing is left of it when it ends, however it ends. Orders come in as JSON, one a line; so do answers.
use super::{
    Control,
    fill::{Ended, Fill},
    ground::Ground,
    guest,
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

/// Where the device is, and which engine works on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The served file, or a block device.
    pub image: PathBuf,
    /// An empty directory, for a file system.
    pub mount_point: PathBuf,
    /// As `--engine` spells it.
    pub engine: String,
    /// Options of the mount.
    pub options: String,
}

/// What to do, and with which history.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Where.
    pub place: Place,
    /// The history.
    pub script: Script,
    /// What.
    pub task: Task,
}

/// Kinds of orders.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Makes what the engine's stores lie on.
    Format,
    /// Writes the history into a store.
    Fill {
        /// The first batch; those before it are there.
        from: u64,
        /// A file that is told the number of each batch that must survive from then on; without one, such numbers are
        /// [marks](Answer::Mark) among the answers.
        control: Option<PathBuf>,
        /// What is broken on purpose.
        broken: Option<Control>,
    },
    /// Mounts, opens, and judges a store.
    Judge {
        /// So many batches must be there.
        promised: u64,
        /// It is closed and opened a second time, compacted, and checked, and so is the file system, outside a guest.
        again: bool,
    },
}

/// How it went: what was found out, or what is wrong.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// So many batches are there.
    Applied(u64),
    /// So many must survive from now on; more answers follow.
    Mark(u64),
    /// The contract is broken; the text begins with one word in capitals.
    Broken(String),
    /// The order could not be carried out: that says nothing about the store.
    Failed(String),
}

/// Carries orders out until there are none. `find` knows the engines by name.
///
/// # Errors
/// Without root. Whatever happens to an order is an answer.
pub fn serve(out: &mut dyn Write, find: &dyn Fn(&str) -> Result<Box<dyn Engine>>) -> Result<()> {
    if guest::is_one() {
        return guest::run(&mut |orders, out| serve_all(orders, out, find));
    }
    unshare(CloneFlags::CLONE_NEWNS).context("a name space of its own for mounts: needs root")?;
    // What is mounted here stays here; what others unmount goes here too, or it would be in use until this process ends. (Where
    // they share nothing with us, what they have on served drives goes with the first order.)
    let slave = mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>);
    slave.context("keep mounts to this process")?;
    serve_all(&mut stdin().lock(), out, find)
}

fn serve_all(
    orders: &mut dyn BufRead,
    out: &mut dyn Write,
    find: &dyn Fn(&str) -> Result<Box<dyn Engine>>,
) -> Result<()> {
    for line in orders.lines() {
        let order = serde_json::from_str(&line.context("read an order")?).context("an order")?;
        let answer = carry_out(&order, out, find).unwrap_or_else(|error| Answer::Failed(format!("{error:#}")));
        say(out, &answer)?;
    }
    Ok(())
}

fn say(out: &mut dyn Write, answer: &Answer) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    Ok(out.flush()?)
}

fn carry_out(order: &Order, out: &mut dyn Write, find: &dyn Fn(&str) -> Result<Box<dyn Engine>>) -> Result<Answer> {
    let Order { place, script, task } = order;
    let mut engine = find(&place.engine)?;
    let lasts = script.size.lasts(script.batches).unwrap_or_else(|| engine.hurry());
    if !guest::is_one() {
        serve::let_go_of_others(&place.image)?;
    }
    if let Task::Format = task {
        Ground::make(place, &*engine, &script.size.settings())?;
        return Ok(Answer::Applied(0));
    }
    let ground = match Ground::enter(place, engine.below())? {
        Ok(ground) => ground,
        Err(broken) => return Ok(Answer::Broken(broken)),
    };
    let verdict = match task {
        Task::Format => unreachable!("carried out above"),
        Task::Fill { from, control, broken } => {
            if *broken == Some(Control::EarlyTickets) {
                engine.deceive()?;
            }
            let control = control.as_ref().map(|path| File::options().write(true).open(path)).transpose();
            let control = control.context("open the control file")?;
            let (script, dir) = (*script, ground.store());
            let fill = Fill { engine: &*engine, dir: &dir, script, from: *from, lasts, broken: *broken };
            let filled = fill.run(&mut |number| match &control {
                Some(file) => (&*file).write_all(format!("mark {number}").as_bytes()).context("set a mark"),
                None => say(out, &Answer::Mark(number)),
            });
            match filled {
                Ok(()) => Ok(script.batches),
                Err(Ended::Broken(broken)) => return Ok(Answer::Broken(broken)), // at once: the power may be cut any moment
                Err(Ended::Untold(error)) => return Err(error),
            }
        }
        Task::Judge { promised, again } => judge(&*engine, &ground.store(), *script, *promised, *again)
            .and_then(|applied| ground.sound().map(|()| applied)),
    };
    let left = ground.leave(matches!((&verdict, task), (Ok(_), Task::Judge { again: true, .. })));
    match verdict {
        Ok(applied) => Ok(left?.map_or_else(Answer::Broken, |()| Answer::Applied(applied))),
        Err(broken) => Ok(Answer::Broken(broken)), // may be why it is still in use
    }
}

/// With `again`, what recovery has made is put to use: the store is compacted, and everything in it is checked.
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
            _ => Err(format!("WRONG: {when}, the store holds another prefix")),
        };
        same("opened a second time")?;
        store.compact().map_err(|error| format!("COMPACT: {error:#}"))?;
        same("compacted")?;
        close(store)?;
        engine.check(dir).map_err(|error| format!("CHECK: {error:#}"))?;
    }
    Ok(applied)
}
