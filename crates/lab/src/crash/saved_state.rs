//! Saves a crash state that violates the contract as a file. This file and the recorded device
//! requests in the same directory suffice to reproduce the crash state.
use super::{crash_state::CrashState, script::Script, size::Size};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// Name and version of the file format of a saved crash state. It is the value of the file's first
/// field.
const FORMAT: &str = "terrace-crash-state-1";

/// A crash state that violates the durability contract.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedState {
    /// Format of the file.
    pub format: String,
    /// Command that judges the crash state again.
    pub command: String,
    /// The violation of the durability contract, as text.
    pub reason: String,
    /// File with the recorded requests of the device, in the same directory.
    pub record: PathBuf,
    /// Name of the engine, in the form of `--engine`.
    pub engine: String,
    /// Seed of the history.
    pub seed: u64,
    /// Number of batches in the history.
    pub batches: u64,
    /// Size of the history.
    #[serde(default)]
    pub size: Size,
    /// The crash state.
    pub choice: CrashState,
}

impl SavedState {
    /// Writes the crash state `number` of a history to a file in `dir`, together with a copy of the
    /// recorded requests. Returns the path of the file with the crash state.
    pub fn write(
        dir: &Path,
        record: &Path,
        engine: &str,
        script: Script,
        (number, choice): (u64, &CrashState),
        reason: &str,
    ) -> Result<PathBuf> {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        // The file name contains a timestamp: the next run with the same seed records different
        // requests, and its crash states must get other names.
        let written = fs::metadata(record).and_then(|meta| meta.modified()).context("the record")?;
        let moment = written.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let name = format!("{}-seed{}-{moment}", engine.replace([':', '+'], "-"), script.seed);
        let record_name = PathBuf::from(format!("{name}.record"));
        let copy = dir.join(&record_name);
        if !copy.exists() {
            fs::copy(record, &copy).with_context(|| format!("copy the record to {}", copy.display()))?;
        }
        let file = dir.join(format!("{name}-state{number}.json"));
        let state = SavedState {
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

    /// Reads a saved crash state and resolves the path of its record.
    ///
    /// # Errors
    /// The file is missing or has another format; the error names the file.
    pub fn read(file: &Path) -> Result<SavedState> {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let mut state: SavedState = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        if state.format != FORMAT {
            bail!("{}: format {:?} is not supported; expected {FORMAT:?}", file.display(), state.format);
        }
        state.record = file.parent().unwrap_or(Path::new("")).join(&state.record);
        Ok(state)
    }

    /// Returns the history (the batches) that the store was filled with.
    pub fn script(&self) -> Script {
        Script { seed: self.seed, batches: self.batches, size: self.size }
    }
}
