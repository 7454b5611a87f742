//! A drive that another process serves: a virtual SSD, or plain memory. The server is a separate
//! process, because a process that waits for a device must not be the server of this device.
use super::{drive_options::DriveOptions, file_system::FileSystem};
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use terrace::parse_size;
use terrace_device::ssd::Profile;

/// Maximum time to wait until a server has removed its drive.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of lines that are kept of a server's error output.
const LINES: usize = 20;

/// The medium in which a drive stores its data.
#[derive(Clone, Debug, PartialEq)]
enum Backing {
    /// The model of an SSD.
    Ssd {
        profile: String,
        /// Whether the SSD starts in steady state, as after long use.
        is_steady: bool,
    },
    /// Plain memory of this machine. The number is the size in bytes.
    Memory(u64),
}

/// A drive and its options.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSpec {
    backing: Backing,
    /// Options that determine how the drive is used and how fast it is.
    pub drive_options: DriveOptions,
}

/// A served drive. Dropping it ends the server, which removes the drive.
#[derive(Debug)]
pub struct Drive {
    node: PathBuf,
    server: Child,
    /// The pipe to the server. The server ends when this pipe closes, and the pipe also closes if
    /// this process is killed.
    stdin: Option<ChildStdin>,
}

/// Returns the built-in profile called `name`, or the profile in the file called `name`.
fn find_profile(name: &str) -> Result<Profile> {
    let known = || Profile::names().collect::<Vec<_>>().join(", ");
    match Profile::named(name) {
        Some(profile) => Ok(profile),
        None if !Path::new(name).exists() => bail!("vssd:{name}: neither a file nor one of the profiles {}", known()),
        None => Ok(Profile::parse(&std::fs::read_to_string(name).with_context(|| name.to_owned())?, name)?),
    }
}

impl DriveSpec {
    /// Parses a virtual SSD: `PROFILE`, then optionally `:steady` for a drive in steady state, then
    /// the [`DriveOptions`].
    pub fn ssd(text: &str) -> Result<DriveSpec, String> {
        let (text, drive_options) = DriveOptions::parse(text)?;
        let (profile, is_steady) = match text.rsplit_once(':') {
            Some((profile, "steady")) => (profile, true),
            Some((profile, "initial")) => (profile, false),
            _ => (text, false),
        };
        Ok(DriveSpec { backing: Backing::Ssd { profile: profile.into(), is_steady }, drive_options })
    }

    /// Parses a drive in memory: `SIZE`, then the [`DriveOptions`].
    pub fn memory(text: &str) -> Result<DriveSpec, String> {
        let (size, drive_options) = DriveOptions::parse(text)?;
        let bytes = parse_size(size)?;
        if bytes < FileSystem::Ext4.bytes_min() || !bytes.is_multiple_of(4096) {
            return Err(format!("memory:{size}: the size must be at least 16MiB and a multiple of 4096 bytes"));
        }
        Ok(DriveSpec { backing: Backing::Memory(bytes), drive_options })
    }

    /// Returns the form of the `--device` argument for this kind of drive.
    pub fn form(&self) -> &'static str {
        if matches!(self.backing, Backing::Memory(_)) { "memory:SIZE" } else { "vssd:PROFILE" }
    }

    /// Checks that the profile of a virtual SSD exists and is valid.
    pub fn check(&self) -> Result<()> {
        let Backing::Ssd { profile: name, .. } = &self.backing else { return Ok(()) };
        find_profile(name)?.validate().with_context(|| format!("vssd:{name}"))
    }

    /// Returns the identity (complete description) of the drive, as
    /// [`DeviceSpec::identity`](super::DeviceSpec::identity) does. The identity contains the
    /// contents of the profile, not the name of the profile's file.
    pub fn identity(&self) -> Result<String> {
        match &self.backing {
            Backing::Ssd { profile, is_steady } => {
                Ok(format!("{:?} {is_steady}{}", find_profile(profile)?, self.drive_options))
            }
            Backing::Memory(bytes) => {
                Ok(format!("memory:{bytes}{}{}", self.drive_options, self.drive_options.rate_limiter()))
            }
        }
    }

    /// Starts a server for the drive. The server is a process that runs the same program as this
    /// process.
    pub fn serve(&self, work: &Path) -> Result<Drive> {
        let mut command = Command::new(std::env::current_exe().context("this program")?);
        command.args(["ssd", "serve", "--json", "--until-eof"]);
        match &self.backing {
            Backing::Ssd { profile, is_steady } => {
                command.args(["--profile", profile, "--state", if *is_steady { "steady" } else { "initial" }])
            }
            Backing::Memory(bytes) => command.args(["--memory", &bytes.to_string()]),
        };
        let DriveOptions { discards, flush_us, bytes_per_s, .. } = self.drive_options;
        command.args((!discards).then_some("--no-discard"));
        command.args(bytes_per_s.map(|bytes| format!("--bytes-per-s={bytes}")));
        command.args(["--flush-us", &flush_us.to_string(), "--work"]);
        command.process_group(0); // Ctrl-C must reach only this process, which still needs the drive
        command.arg(work).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().context("start the server of a drive")?;
        let stdin = server.stdin.take();
        let complaints = last_lines(server.stderr.take().expect("it is piped"));
        let mut line = String::new();
        let said = BufReader::new(server.stdout.take().expect("it is piped")).read_line(&mut line);
        let mut drive = Drive { node: PathBuf::new(), server, stdin };
        said.context("read the output of a drive's server")?;
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
    /// Returns the block device node of the drive.
    pub fn node(&self) -> &Path {
        &self.node
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Err(error) = end(&mut self.server, SERVER_TIMEOUT) {
            let node = self.node.display();
            eprintln!("not removed: the server of {node}: {error:#}; `terrace ssd cleanup` removes the leftovers");
        }
    }
}

/// Starts a thread that reads a server's error output continuously, so that the server never
/// blocks on the pipe. The thread returns the last lines when the server has ended.
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

/// Waits for a process after a signal to end. Kills the process after the timeout.
fn end(process: &mut Child, timeout: Duration) -> Result<()> {
    let begin = Instant::now();
    while process.try_wait().context("wait for it")?.is_none() {
        if begin.elapsed() > timeout {
            process.kill().and_then(|()| process.wait()).context("kill it")?;
            bail!("the process did not end within {timeout:?} and was killed");
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

    /// Tests a server whose error output is larger than the capacity of a pipe. The lab must read
    /// the output. Otherwise the server would block on the pipe, and the run would wait for it
    /// forever.
    #[test]
    fn a_server_with_much_error_output_does_not_block() {
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
