//! Removes the mounts and loop devices of servers that serve a block device. A server removes its
//! own mounts and loop devices when it stops. If a server was killed, any other process can remove
//! those that it left.
//!
//! All mounts and loop devices of a server belong to one directory, whose name identifies the
//! server: `WORK/terrace-ssd-PID-START-N`. The server needs no list of its mounts, loop devices
//! and rate limits, because the kernel lists them. [`cleanup`] uses the kernel's lists, so it
//! finds everything that a killed server left, at whatever moment the server was killed.
use super::{fuse::FILE_SYSTEM, limits, loops};
use crate::{
    Error, Result,
    loops::number_of,
    process::{identity, is_alive},
};
use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// First column (source) of a served device's mounts in the mount table.
pub const SOURCE: &str = "terrace-ssd";
const PREFIX: &str = "terrace-ssd-";
const CONNECTIONS: &str = "/sys/fs/fuse/connections";
/// Time for which the unmount of a busy file system and the detaching of an open loop device are
/// retried.
const WAIT: Duration = Duration::from_secs(5);
/// Minimum number of attempts. On a stalled machine [`WAIT`] may pass after only a few attempts.
const ATTEMPTS_MIN: u32 = 20;

/// The result of [`cleanup`].
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Removed directories, with all their mounts and devices.
    pub removed: Vec<PathBuf>,
    /// Directories of running servers.
    pub running: Vec<PathBuf>,
    /// Failed removals, with reasons.
    pub failed: Vec<String>,
}

/// A line of the kernel's mount table.
struct Mount {
    /// Device number of the mount, `MAJOR:MINOR`.
    device: String,
    point: PathBuf,
    kind: String,
    /// The mounted device, as it was named in the mount call. The device number is not enough: with
    /// some file systems (btrfs), the mount has another device number than the mounted device.
    source: PathBuf,
}

/// Creates a directory that belongs to this process alone. After the process has ended,
/// [`cleanup`] removes the directory and a file `record` in it.
pub fn new_directory(work: &Path) -> Result<PathBuf> {
    let failed = |source| Error::Io { what: format!("make a directory below {}", work.display()), source };
    let identity = identity(std::process::id()).ok_or_else(|| failed(io::Error::other("/proc is not mounted")))?;
    fs::create_dir_all(work).map_err(failed)?;
    let dir = fs::canonicalize(work).map_err(failed)?.join(format!("{PREFIX}{identity}-{}", super::next()));
    fs::create_dir(&dir).map_err(failed)?;
    Ok(dir)
}

/// Removes everything that killed servers left below `work`: file systems on their devices, loop
/// devices, mounts and directories. If `work` is `None`, removes the same anywhere on the machine.
/// Does not touch running servers.
pub fn cleanup(work: Option<&Path>) -> Result<Cleaned> {
    // `work` is made canonical, because the mount table has canonical paths.
    let whole = |work: &Path| fs::canonicalize(work).unwrap_or_else(|_| work.to_owned());
    let work = work.map(whole);
    let work = work.as_deref();
    let is_ours = |mount: &Mount| mount.kind == FILE_SYSTEM && work.is_none_or(|work| mount.point.starts_with(work));
    let mut dirs: Vec<PathBuf> = mounts()?.into_iter().filter(is_ours).map(|mount| mount.point).collect();
    // A killed server may also have left a directory without a mount. The directories below `work`
    // are therefore added to the list.
    let entries =
        fs::read_dir(work.map_or_else(|| whole(&std::env::temp_dir()), Path::to_owned)).into_iter().flatten().flatten();
    dirs.extend(entries.map(|entry| entry.path()));
    dirs.sort();
    dirs.dedup();
    let mut cleaned = Cleaned::default();
    for dir in dirs {
        match owner(&dir) {
            None => {}
            Some(owner) if is_alive(owner) => cleaned.running.push(dir),
            Some(_) => match take_down(&dir) {
                Ok(()) => cleaned.removed.push(dir),
                Err(error) => cleaned.failed.push(error.to_string()),
            },
        }
    }
    Ok(cleaned)
}

/// Removes everything that belongs to `dir`, innermost first. It removes only objects that a
/// server creates, and never a directory tree.
///
/// Steps that may wait for the device run in other processes, because the caller may be the server
/// of the device. A process that waits for its own device cannot be killed.
pub fn take_down(dir: &Path) -> Result<()> {
    let is_left = owner(dir).is_some_and(|owner| !is_alive(owner));
    for node in loops::below(dir)? {
        let stands = standing_on(&node)?;
        if is_left {
            // The rate limit is removed first, because otherwise it would slow down pending writes
            // so much that they fail. If its removal fails here, it is repeated below.
            let _ = limits::lift(&node);
        }
        while let Some(mount) = mounts()?.into_iter().rev().find(&stands) {
            patiently(|| run(Command::new("umount").arg(&mount.point)))?;
        }
        for part in &loops::partitions(&node)? {
            let number = part.to_string_lossy().rsplit('p').next().unwrap_or_default().to_owned();
            patiently(|| match loops::partitions(&node)?.contains(part) {
                true => run(Command::new("delpart").arg(&node).arg(&number)),
                false => Ok(()), // the kernel has removed it
            })?;
        }
        let lifted = patiently(|| limits::lift(&node)); // before another device gets this number
        patiently(|| match loops::below(dir)?.contains(&node) {
            true => run(Command::new("losetup").arg("--detach").arg(&node)).and(Err(in_use(&node))),
            false => Ok(()),
        })?;
        lifted?;
    }
    while let Some(mount) = mounts()?.iter().find(|mount| mount.point == dir) {
        if is_left {
            abort(&mount.device);
        }
        let failed = |errno: Errno| Error::Io { what: format!("unmount {}", dir.display()), source: errno.into() };
        patiently(|| umount2(dir, MntFlags::empty()).map_err(failed))?;
    }
    let failed = |source| Error::Io { what: format!("remove {}", dir.display()), source };
    match fs::remove_file(dir.join("record")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => fs::remove_dir(dir).map_err(failed),
    }
}

/// Unmounts served drives, and file systems on them, from the mount namespace of this process,
/// except for the drive of file `own`. If this namespace is a copy of the machine's namespace, its
/// mounts would keep the other drives in use even after they are unmounted in the machine's
/// namespace.
pub fn let_go_of_others(own: &Path) -> Result<()> {
    let detach = |point: &Path| match umount2(point, MntFlags::MNT_DETACH) {
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()), // unmounted in the meantime
        Err(errno) => Err(Error::Io { what: format!("let go of {}", point.display()), source: errno.into() }),
    };
    let is_others = |mount: &Mount| mount.kind == FILE_SYSTEM && !own.starts_with(&mount.point);
    for dir in mounts()?.into_iter().filter(is_others).map(|mount| mount.point) {
        for node in loops::below(&dir)? {
            let stands = standing_on(&node)?;
            mounts()?.iter().rev().filter(|mount| stands(mount)).try_for_each(|mount| detach(&mount.point))?;
        }
        detach(&dir)?;
    }
    Ok(())
}

/// Returns a function that tests whether a mount is a mount of the block device `node` or of one
/// of its partitions.
fn standing_on(node: &Path) -> Result<impl Fn(&Mount) -> bool + use<>> {
    let devices = [&[node.to_owned()], &loops::partitions(node)?[..]].concat();
    let numbers = devices.iter().filter_map(|node| number_of(node).transpose()).collect::<Result<Vec<_>>>()?;
    Ok(move |mount: &Mount| numbers.contains(&mount.device) || devices.contains(&mount.source))
}

/// Aborts the requests of a FUSE file system whose server is dead. The kernel usually aborts them
/// itself, but not if the server was killed while it waited for its own device.
fn abort(device: &str) {
    let Some((_, minor)) = device.split_once(':') else { return };
    let write = || fs::write(format!("{CONNECTIONS}/{minor}/abort"), "1");
    if write().is_err() {
        // Requests are aborted through the FUSE control file system, which may not be mounted yet.
        // If mounting it fails here, the later unmount of the device reports the problem.
        let _ = mount(None::<&str>, CONNECTIONS, Some("fusectl"), MsFlags::empty(), None::<&str>);
        let _ = write();
    }
}

/// Retries `attempt` for a while, because another process may have the device open briefly.
fn patiently(attempt: impl Fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut attempts = 0;
    loop {
        attempts += 1;
        match attempt() {
            Err(_) if attempts < ATTEMPTS_MIN || start.elapsed() < WAIT => thread::sleep(pause),
            done => return done,
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Returns the error for a loop device that is in use. The kernel detaches such a loop device when
/// its last user closes it.
fn in_use(node: &Path) -> Error {
    Error::Io { what: format!("detach {}", node.display()), source: io::ErrorKind::ResourceBusy.into() }
}

fn run(command: &mut Command) -> Result<()> {
    let what = format!("{command:?}");
    let output = match command.output() {
        Ok(output) => output,
        Err(source) => return Err(Error::Io { what: format!("run {what}"), source }),
    };
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::Io { what, source: io::Error::other(said) })
        }
    }
}

fn mounts() -> Result<Vec<Mount>> {
    const LIST: &str = "/proc/self/mountinfo";
    let text = fs::read_to_string(LIST).map_err(|source| Error::Io { what: format!("read {LIST}"), source })?;
    Ok(text.lines().filter_map(parse_mount).collect())
}

/// Parses a line of the form `36 35 98:0 /root /point options ... - kind source options`.
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ').skip(2);
    let (device, point) = (fields.next()?, fields.nth(1)?);
    let (kind, rest) = right.split_once(' ')?;
    let source = rest.split(' ').next()?;
    Some(Mount {
        device: device.into(),
        point: unescape(point).into(),
        kind: kind.into(),
        source: unescape(source).into(),
    })
}

/// Undoes the escapes of the mount table, which writes a space, tab, newline or backslash as a
/// backslash and three octal digits.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Returns the name of the process that created `dir`, if a server created it.
fn owner(dir: &Path) -> Option<&str> {
    Some(dir.file_name()?.to_str()?.strip_prefix(PREFIX)?.rsplit_once('-')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_and_without_optional_fields_and_blanks() {
        let mount = parse_mount("36 35 98:0 / /mnt\\040two rw,noatime master:1 shared:2 - fuse.terrace-ssd terrace rw")
            .unwrap();
        assert_eq!((&*mount.device, mount.point.to_str(), &*mount.kind), ("98:0", Some("/mnt two"), FILE_SYSTEM));
        assert_eq!(parse_mount("36 35 0:5 / /sys rw - sysfs sysfs rw").unwrap().kind, "sysfs");
        assert_eq!(parse_mount("36 35 0:51 / /b rw - btrfs /dev/loop3 rw").unwrap().source, Path::new("/dev/loop3"));
        assert!(parse_mount("36 35").is_none());
    }

    #[test]
    fn directories_name_their_owner() {
        let me = identity(std::process::id()).unwrap();
        assert!(is_alive(&me) && !is_alive(&format!("{me}0")) && !is_alive("x"));
        assert_eq!(owner(Path::new(&format!("/run/{PREFIX}{me}-3"))), Some(&*me));
        assert_eq!(owner(Path::new("/run/terrace-lab-1-2-3")), None);
    }
}
