//! The statistics of a session (the time from an open of the store to its close), which the store
//! writes to the file `LOG`.
use serde_json::Value;
use std::{
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};
use terrace_storage::open_store_file;

/// What precedes the statistics in a line of `LOG`.
const MARK: &str = "statistics: ";
/// The part at the end of `LOG` that is read, in bytes.
const END_BYTES: u64 = 4 << 20;
/// A shorter session tells nothing about the store.
const SECONDS_MIN: f64 = 1.0;

/// The statistics of one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session(Value);

impl Session {
    /// Returns the newest statistics in the files `LOG` and `LOG.old` of `directory` of a
    /// session of at least [`SECONDS_MIN`]; `None` if there are none.
    pub fn last(directory: &Path) -> Option<Session> {
        let texts = ["LOG", "LOG.old"].into_iter().filter_map(|name| end_of(&directory.join(name)).ok());
        texts.map(|text| Session::last_in(&text)).find(Option::is_some).flatten()
    }

    pub fn last_in(log: &str) -> Option<Session> {
        let sessions = log.lines().rev().filter_map(|line| serde_json::from_str(line.split_once(MARK)?.1).ok());
        sessions.map(Session).find(|session| session.number("seconds") >= SECONDS_MIN)
    }

    /// Returns the number at `path`, names separated by dots; 0 if there is none.
    pub fn number(&self, path: &str) -> f64 {
        self.at(path).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Returns the text at `path`; empty if there is none.
    pub fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the members of the object at `path`, with their numbers.
    pub fn numbers(&self, path: &str) -> Vec<(&str, f64)> {
        let members = self.at(path).and_then(Value::as_object).into_iter().flatten();
        members.filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?))).collect()
    }

    /// Returns the seconds for which writes, flushes and compactions waited for syncs of
    /// SSTables and of the directory.
    pub fn table_sync_seconds(&self) -> f64 {
        let kinds = ["syncs.tables", "syncs.directory"].into_iter().filter_map(|kind| self.at(kind));
        let blocking = |kind: &Value| {
            let [count, blocking, seconds] =
                ["count", "blocking", "seconds"].map(|name| kind[name].as_f64().unwrap_or(0.0));
            if count > 0.0 { seconds * blocking / count } else { 0.0 }
        };
        kinds.map(blocking).sum()
    }

    /// Returns whether the value at `path` is `true`.
    pub fn is(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn json(&self) -> &Value {
        &self.0
    }

    fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&self.0, |value, name| value.get(name))
    }
}

/// Reads the end of the file at `path`, if it is a regular file.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = open_store_file(path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(END_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(END_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
