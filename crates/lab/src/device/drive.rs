//! A drive that another process serves, a virtual SSD or plain memory: who waits for a device must not be the one who serves it.
use super::{FileSystem, Habits, parse_size};
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use terrace_device::ssd::Profile;

/// How long a server may take to take its drive down.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lines that are kept of what a server complains of.
const LINES: usize = 20;

/// What is behind a drive.
#[derive(Clone, Debug, PartialEq)]
enum Behind {
    /// The model of an SSD.
    Ssd {
        profile: String,
        /// Whether it is to have been in use.
        is_steady: bool,
    },
    /// So many bytes of this machine's memory.
    Memory(u64),
}

/// Which drive, and how used.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSpec {
    behind: Behind,
    /// How used, and how slow.
    pub habits: Habits,
}

/// A served drive. Dropping it ends the server, which takes it down.
#[derive(Debug)]
pub struct Drive {
    node: PathBuf,
    server: Child,
    /// The server ends when this does, also if this process is killed.
    stdin: Option<ChildStdin>,
}

/// One of ours, or that of a file.
fn profile_called(name: &str) -> Result<Profile> {
    let known = || Profile::names().collect::<Vec<_>>().join(", ");
    match Profile::named(name) {
        Some(profile) => Ok(profile),
        None if !Path::new(name).exists() => bail!("vssd:{name}: no file, and none of {}", known()),
        None => Ok(Profile::parse(&std::fs::read_to_string(name).with_context(|| name.to_owned())?, name)?),
    }
}

impl DriveSpec {
    /// A virtual SSD: `PROFILE`, if it has been in use `:steady`, and its [`Habits`].
    pub fn ssd(text: &str) -> Result<DriveSpec, String> {
        let (text, habits) = Habits::parse(text)?;
        let (profile, is_steady) = match text.rsplit_once(':') {
            Some((profile, "steady")) => (profile, true),
            Some((profile, "initial")) => (profile, false),
            _ => (text, false),
        };
        Ok(DriveSpec { behind: Behind::Ssd { profile: profile.into(), is_steady }, habits })
    }

    /// A drive in memory: `SIZE`, and its [`Habits`].
    pub fn memory(text: &str) -> Result<DriveSpec, String> {
        let (size, habits) = Habits::parse(text)?;
        let bytes = parse_size(size)?;
        if bytes < FileSystem::Ext4.bytes_min() || !bytes.is_multiple_of(4096) {
            return Err(format!("memory:{size}: at least 16MiB in whole blocks of 4096 bytes are needed"));
        }
        Ok(DriveSpec { behind: Behind::Memory(bytes), habits })
    }

    /// How such a drive is asked for.
    pub fn form(&self) -> &'static str {
        if matches!(self.behind, Behind::Memory(_)) { "memory:SIZE" } else { "vssd:PROFILE" }
    }

    /// Whether there is such a profile, and there can be a drive of it.
    pub fn check(&self) -> Result<()> {
        let Behind::Ssd { profile: name, .. } = &self.behind else { return Ok(()) };
        profile_called(name)?.validate().with_context(|| format!("vssd:{name}"))
    }

    /// As [`DeviceSpec::identity`](super::DeviceSpec::identity): what a file of a profile says counts, not what it is called.
    pub fn identity(&self) -> Result<String> {
        match &self.behind {
            Behind::Ssd { profile, is_steady } => {
                Ok(format!("{:?} {is_steady}{}", profile_called(profile)?, self.habits))
            }
            Behind::Memory(bytes) => Ok(format!("memory:{bytes}{}{}", self.habits, self.habits.kept_by())),
        }
    }

    /// Starts a server, which is this program.
    pub fn serve(&self, work: &Path) -> Result<Drive> {
        let mut command = Command::new(std::env::current_exe().context("this program")?);
        command.args(["ssd", "serve", "--json", "--until-eof"]);
        match &self.behind {
            Behind::Ssd { profile, is_steady } => {
                command.args(["--profile", profile, "--state", if *is_steady { "steady" } else { "initial" }])
            }
            Behind::Memory(bytes) => command.args(["--memory", &bytes.to_string()]),
        };
        let Habits { discards, flush_us, bytes_per_s, .. } = self.habits;
        command.args((!discards).then_some("--no-discard"));
        command.args(bytes_per_s.map(|bytes| format!("--bytes-per-s={bytes}")));
        command.args(["--flush-us", &flush_us.to_string(), "--work"]);
        command.process_group(0); // Ctrl-C is for this process, which still needs the drive then
        command.arg(work).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().context("start the server of a drive")?;
        let stdin = server.stdin.take();
        let complaints = last_lines(server.stderr.take().expect("it is piped"));
        let mut line = String::new();
        let said = BufReader::new(server.stdout.take().expect("it is piped")).read_line(&mut line);
        let mut drive = Drive { node: PathBuf::new(), server, stdin };
        said.context("hear from the server of a drive")?;
        match serde_json::from_str::<serde_json::Value>(&line).ok().as_ref().and_then(|said| said["device"].as_str()) {
            Some(node) => drive.node = node.into(),
            None => {
                drop(drive);
                bail!("no drive: {}", complaints.join().unwrap_or_default().trim());
            }
        }
        Ok(drive)
    }
}

impl Drive {
    /// The block device.
    pub fn node(&self) -> &Path {
        &self.node
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Err(error) = end(&mut self.server, PATIENCE) {
            let node = self.node.display();
            eprintln!("left behind: the server of {node}: {error:#}; `terrace ssd cleanup` removes what is left");
        }
    }
}

/// Reads a server's complaints as they come, so that it never waits for a reader; the last lines of them, once it has ended.
fn last_lines(from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut last = std::collections::VecDeque::new();
        for line in BufReader::new(from).split(b'\n').map_while(std::io::Result::ok) {
            if last.len() == LINES {
                last.pop_front();
            }
            last.push_back(String::from_utf8_lossy(&line).into_owned());
        }
        last.make_contiguous().join("\n")
    })
}

/// Waits for the end of a process that has been told to; kills it if that takes too long.
fn end(process: &mut Child, patience: Duration) -> Result<()> {
    let begin = Instant::now();
    while process.try_wait().context("wait for it")?.is_none() {
        if begin.elapsed() > patience {
            process.kill().and_then(|()| process.wait()).context("kill it")?;
            bail!("it did not end within {patience:?} and was killed");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// More than a pipe holds: the server would wait for its reader, and the run for the server.
    #[test]
    fn a_server_that_complains_a_lot_is_not_kept_waiting() {
        let mut server = shell("yes complaint | head -n 100000 >&2; echo last >&2").spawn().unwrap();
        let complaints = last_lines(server.stderr.take().unwrap());
        end(&mut server, Duration::from_secs(60)).unwrap();
        let said = complaints.join().unwrap();
        assert_eq!((said.lines().count(), said.lines().last()), (LINES, Some("last")));
    }

    #[test]
    fn a_server_that_does_not_end_is_killed_and_named() {
        let mut server = shell("exec sleep 1000").spawn().unwrap();
        let refused = end(&mut server, Duration::from_millis(100)).unwrap_err();
        assert!(refused.to_string().contains("killed"), "{refused}");
        assert!(server.try_wait().unwrap().is_some(), "it still runs");
    }
}
