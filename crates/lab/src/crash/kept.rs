//! A failing state as a file: enough to make it again, with the record beside it.
use super::{choose::Choice, script::Script, size::Size};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// What such a file is called in its first field.
const FORMAT: &str = "terrace-crash-state-1";

/// A state that broke the contract.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptState {
    /// What kind of file this is.
    pub format: String,
    /// The command that judges it again.
    pub command: String,
    /// What was wrong.
    pub reason: String,
    /// The record's file, beside this one.
    pub record: PathBuf,
    /// As `--engine` spells it.
    pub engine: String,
    /// Seed of the history.
    pub seed: u64,
    /// Its length.
    pub batches: u64,
    /// How much it writes.
    #[serde(default)]
    pub size: Size,
    /// Which state of the device.
    pub choice: Choice,
}

impl KeptState {
    /// Writes state `number` of a history, and the record, into `dir`; the file's path.
    pub fn write(
        dir: &Path,
        record: &Path,
        engine: &str,
        script: Script,
        (number, choice): (u64, &Choice),
        reason: &str,
    ) -> Result<PathBuf> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        // The same seed gives another record next time: the moment tells them apart.
        let written = fs::metadata(record).and_then(|meta| meta.modified()).context("the record")?;
        let moment = written.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let name = format!("{}-seed{}-{moment}", engine.replace([':', '+'], "-"), script.seed);
        let record_name = PathBuf::from(format!("{name}.record"));
        let beside = dir.join(&record_name);
        if !beside.exists() {
            fs::copy(record, &beside).with_context(|| format!("copy the record to {}", beside.display()))?;
        }
        let file = dir.join(format!("{name}-state{number}.json"));
        let state = KeptState {
            format: FORMAT.into(),
            command: format!("terrace crash --replay {}", file.display()),
            reason: reason.into(),
            record: record_name,
            engine: engine.into(),
            seed: script.seed,
            batches: script.batches,
            size: script.size,
            choice: choice.clone(),
        };
        fs::write(&file, serde_json::to_vec_pretty(&state)?).with_context(|| format!("write {}", file.display()))?;
        Ok(file)
    }

    /// Reads one again; the path of its record is made whole.
    ///
    /// # Errors
    /// The file is missing or is no such file: the error names it.
    pub fn read(file: &Path) -> Result<KeptState> {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let mut state: KeptState = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        if state.format != FORMAT {
            bail!("{}: its format is {:?}, known is {FORMAT:?}", file.display(), state.format);
        }
        state.record = file.parent().unwrap_or(Path::new("")).join(&state.record);
        Ok(state)
    }

    /// The history that was written.
    pub fn script(&self) -> Script {
        Script { seed: self.seed, batches: self.batches, size: self.size }
    }
}
