//! Runs `smartctl` and `nvme`, the tools that read the counters of a real drive.
use serde_json::Value;
use std::{ffi::OsStr, io, path::Path, process::Command};

use super::vendors::TABLE;
use crate::{Error, Result};

/// Returns the output of `smartctl` for a drive and, for an NVMe drive, the first vendor log
/// that `nvme` provides. Needs root.
///
/// # Errors
/// If `smartctl` is not installed or prints no JSON. If `nvme` is missing, the result lacks the
/// vendor log.
pub fn ask(device: &Path) -> Result<Vec<Value>> {
    let smart =
        run("smartctl", ["--json", "--all", "--log=devstat"].map(OsStr::new).into_iter().chain([device.as_os_str()]));
    let smart = smart.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Io { what: "run smartctl (install smartmontools)".into(), source },
        _ => Error::Io { what: format!("run smartctl {}", device.display()), source },
    })?;
    let mut texts = vec![smart];
    if texts[0]["device"]["protocol"] == "NVMe" {
        let logs = TABLE.nvme.iter().map(|log| {
            let asked = log.ask.iter().map(OsStr::new);
            run("nvme", asked.chain([device.as_os_str(), OsStr::new("-o"), OsStr::new("json")]))
        });
        texts.extend(logs.flatten().find(|log| super::in_nvme_log(log).is_some()));
    }
    Ok(texts)
}

/// Returns a program's output, whatever its exit status is. `smartctl` reports findings about the
/// drive in its exit status, so another status than 0 is not a failure.
fn run<'a>(program: &str, arguments: impl Iterator<Item = &'a OsStr>) -> io::Result<Value> {
    let output = Command::new(program).args(arguments).output()?;
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{program} printed no JSON: {error}"));
    serde_json::from_slice(&output.stdout).map_err(invalid)
}
