//! The process that mounts: fills a store on a recorded device, and judges the states that a power cut may have left.
//!
//! It is a process of its own because whoever waits for a device must not be its server, and because an engine that falls
//! over must not take the campaign with it. Its mounts are in a name space of their own and its loop devices clear
//! themselves, so nothing is left of it when it ends, however it ends. Orders come in as JSON, one a line; so do answers.
use super::{
    Control,
    fill::Fill,
    guest,
    script::{Script, check_after, write_after},
};
use crate::target::{Engine, Settings, Target};
use anyhow::{Context, Result, bail};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{BufRead, Write, stdin},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    process::Command,
};
use terrace_device::serve::{self, Loop};

/// Where the file system is, and which engine works on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The served file, or a block device.
    pub image: PathBuf,
    /// An empty directory.
    pub mount_point: PathBuf,
    /// As `--engine` spells it.
    pub engine: String,
    /// Options of the mount.
    pub options: String,
}

/// What to do, and with which history (see `Script`).
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Where.
    pub place: Place,
    /// Seed of the history.
    pub seed: u64,
    /// Its length.
    pub batches: u64,
    /// What.
    pub task: Task,
}

/// Kinds of orders.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Makes a file system.
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
    let Order { place, seed, batches, task } = order;
    let script = Script { seed: *seed, batches: *batches };
    let mut engine = find(&place.engine)?;
    let lasts = engine.hurry();
    if !guest::is_one() {
        serve::let_go_of_others(&place.image)?;
    }
    let device = Device::at(&place.image)?;
    if let Task::Format = task {
        make_file_system(&device.node)?;
        return Ok(Answer::Applied(0));
    }
    let mounted = match Mounted::new(device, place) {
        Ok(mounted) => mounted,
        Err(error) => return Ok(Answer::Broken(format!("MOUNT: {error}"))),
    };
    let verdict = match task {
        Task::Format => unreachable!("carried out above"),
        Task::Fill { from, control, broken } => {
            if *broken == Some(Control::EarlyTickets) {
                engine.deceive()?;
            }
            let control = control.as_ref().map(|path| File::options().write(true).open(path)).transpose();
            let control = control.context("open the control file")?;
            let fill = Fill { engine: &*engine, dir: &mounted.store(), script, from: *from, lasts, broken: *broken };
            fill.run(&mut |number| match &control {
                Some(file) => (&*file).write_all(format!("mark {number}").as_bytes()).context("set a mark"),
                None => say(out, &Answer::Mark(number)),
            })?;
            Ok(*batches)
        }
        Task::Judge { promised, again } => judge(&*engine, &mounted.store(), script, *promised, *again)
            .and_then(|applied| mounted.sound().map(|()| applied)),
    };
    let unmounted = mounted.unmount();
    let verdict = match (verdict, task) {
        (Ok(applied), Task::Judge { again: true, .. }) if unmounted.is_ok() && !guest::is_one() => {
            check_file_system(&mounted.device.node)?.map(|()| applied)
        }
        (verdict, _) => verdict,
    };
    match verdict {
        Ok(applied) => unmounted.map(|()| Answer::Applied(applied)),
        Err(broken) => Ok(Answer::Broken(broken)), // may be why it is still in use
    }
}

/// Everything is initialised now, so that the kernel writes nothing of its own later.
pub(super) fn make_file_system(device: &Path) -> Result<()> {
    let mkfs = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let made = Command::new("mkfs.ext4").args(mkfs).arg(device).output().context("run mkfs.ext4")?;
    if !made.status.success() {
        bail!("mkfs.ext4: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    Ok(())
}

/// Whether e2fsck finds nothing wrong with what is not mounted. It counts links, inodes and blocks anew, as no mount does.
fn check_file_system(device: &Path) -> Result<Result<(), String>> {
    let run = Command::new("e2fsck").args(["-f", "-n"]).arg(device).output().context("run e2fsck")?;
    let said = String::from_utf8_lossy(&run.stdout);
    Ok(if run.status.success() { Ok(()) } else { Err(format!("FSCK: {}: {}", run.status, said.trim())) })
}

/// Small numbers, so that few writes go through every part of an engine.
pub(super) fn settings() -> Settings {
    Settings {
        write_buffer_size: 64 << 10,
        max_file_size: 64 << 10,
        level_base: 128 << 10,
        l0_triggers: (2, 8, 12),
        verify_checksums: true,
        ..Settings::default()
    }
}

/// With `again`, what recovery has made is put to use: the store is compacted, and everything in it is checked.
fn judge(engine: &dyn Engine, dir: &Path, script: Script, promised: u64, again: bool) -> Result<u64, String> {
    let open = || engine.open(dir, &settings()).map_err(|error| format!("OPEN: {error:#}"));
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

/// A block device; if it is the loop device of a file, that goes with it.
struct Device {
    node: PathBuf,
    _loop: Option<Loop>,
}

impl Device {
    fn at(image: &Path) -> Result<Device> {
        let kind = fs::metadata(image).with_context(|| format!("look at {}", image.display()))?.file_type();
        if kind.is_block_device() {
            return Ok(Device { node: image.into(), _loop: None });
        }
        let attached = serve::attach(image, true)?;
        Ok(Device { node: attached.node.clone(), _loop: Some(attached) })
    }
}

/// A mounted file system.
struct Mounted {
    point: PathBuf,
    name: String,
    device: Device,
}

impl Mounted {
    fn new(device: Device, place: &Place) -> Result<Mounted, String> {
        let name = device.node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let options = Some(place.options.as_str());
        mount(Some(&device.node), &place.mount_point, Some("ext4"), MsFlags::MS_NOATIME, options)
            .map_err(|errno| format!("ext4 on the device is refused: {errno}"))?;
        Ok(Mounted { point: place.mount_point.clone(), name, device })
    }

    fn store(&self) -> PathBuf {
        self.point.join("store")
    }

    /// Whether the file system has found nothing wrong with itself.
    fn sound(&self) -> Result<(), String> {
        let errors = fs::read_to_string(format!("/sys/fs/ext4/{}/errors_count", self.name));
        match errors.as_deref().map(str::trim) {
            Ok("0") => Ok(()),
            Ok(count) => Err(format!("EXT4: the file system found {count} errors in itself")),
            Err(error) => Err(format!("EXT4: its count of errors cannot be read: {error}")),
        }
    }

    fn unmount(&self) -> Result<()> {
        umount2(&self.point, MntFlags::empty()).with_context(|| format!("unmount {}", self.point.display()))
    }
}

impl Drop for Mounted {
    /// After an error nothing may be left on the mount point: the next state is mounted there.
    fn drop(&mut self) {
        let _ = umount2(&self.point, MntFlags::MNT_DETACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_peers::require;

    /// `debugfs` changes what nothing reads when it is mounted.
    #[test]
    fn a_link_that_nobody_has_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made = require("mkfs", make_file_system(&image).map_err(|error| format!("{error:#}")));
        let Some(()) = made else { return };
        assert_eq!(check_file_system(&image).unwrap(), Ok(()));
        let change = ["-w", "-R", "set_inode_field <2> links_count 9"];
        let changed = Command::new("debugfs").args(change).arg(&image).output().unwrap();
        assert!(changed.status.success(), "{changed:?}");
        let found = check_file_system(&image).unwrap().expect_err("UNSEEN");
        assert!(found.starts_with("FSCK") && found.contains("ref count"), "{found}");
    }
}
