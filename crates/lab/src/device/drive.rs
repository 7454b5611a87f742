//! A virtual SSD that another process serves: who waits for a device must not be the one who serves it.
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    str::FromStr,
};
use terrace_device::ssd::Profile;

/// Which virtual SSD, and how used: `PROFILE`, and behind it, each if at all and in this order, `:steady`, `:discard` and
/// `:flush=MICROSECONDS`.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSpec {
    profile: String,
    /// Whether it is to have been in use.
    pub is_steady: bool,
    /// Whether the file system tells it what was deleted, as it is deleted.
    pub discards: bool,
    /// µs that each flush takes longer than it would.
    flush_us: u64,
}

/// A served drive. Dropping it ends the server, which takes it down.
#[derive(Debug)]
pub struct Drive {
    node: PathBuf,
    server: Child,
    /// The server ends when this does, also if this process is killed.
    stdin: Option<ChildStdin>,
}

impl FromStr for DriveSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<DriveSpec, String> {
        let (text, flush_us) = match text.rsplit_once(":flush=") {
            Some((text, micros)) => {
                (text, micros.parse().map_err(|_| format!("vssd: flush={micros} is no whole number"))?)
            }
            None => (text, 0),
        };
        let (text, discards) = text.strip_suffix(":discard").map_or((text, false), |text| (text, true));
        let (profile, is_steady) = match text.rsplit_once(':') {
            Some((profile, "steady")) => (profile, true),
            Some((profile, "initial")) => (profile, false),
            _ => (text, false),
        };
        Ok(DriveSpec { profile: profile.into(), is_steady, discards, flush_us })
    }
}

impl DriveSpec {
    /// Whether there is such a profile, and there can be a drive of it.
    pub fn check(&self) -> Result<()> {
        let name = &self.profile;
        let known = || Profile::names().collect::<Vec<_>>().join(", ");
        let profile = match Profile::named(name) {
            Some(profile) => profile,
            None if !Path::new(name).exists() => bail!("vssd:{name}: no file, and none of {}", known()),
            None => Profile::parse(&std::fs::read_to_string(name).with_context(|| name.clone())?, name)?,
        };
        profile.validate().with_context(|| format!("vssd:{name}"))
    }

    /// Starts a server, which is this program.
    pub fn serve(&self, work: &Path) -> Result<Drive> {
        let state = if self.is_steady { "steady" } else { "initial" };
        let mut command = Command::new(std::env::current_exe().context("this program")?);
        command.args(["ssd", "serve", "--json", "--until-eof", "--profile", &self.profile, "--state", state]);
        command.args(["--flush-us", &self.flush_us.to_string(), "--work"]);
        command.process_group(0); // Ctrl-C is for this process, which still needs the drive then
        command.arg(work).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().context("start the server of a virtual SSD")?;
        let stdin = server.stdin.take();
        let mut line = String::new();
        BufReader::new(server.stdout.take().expect("it is piped")).read_line(&mut line)?;
        let mut drive = Drive { node: PathBuf::new(), server, stdin };
        match serde_json::from_str::<serde_json::Value>(&line).ok().as_ref().and_then(|said| said["device"].as_str()) {
            Some(node) => drive.node = node.into(),
            None => {
                let mut why = String::new();
                drive.server.stderr.take().expect("it is piped").read_to_string(&mut why)?;
                bail!("no virtual SSD: {}", why.trim());
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
        if let Err(error) = self.server.wait() {
            eprintln!("left behind: the server of {}: {error}", self.node.display());
        }
    }
}
