//! How far a command is, drawn on standard error, and only if that is a terminal.
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use terrace::Db;

/// A bar for `verb`, up to `bytes`; without them, something that turns.
pub fn bar(verb: &str, bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{wide_bar} {bytes}/{total_bytes}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}"),
    };
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_style(ProgressStyle::with_template(&format!("{verb} {template}")).expect("the template is valid"))
}

/// A pass over all keys of a store, measured by the bytes of its tables.
pub struct Pass<'a> {
    db: &'a Db,
    bar: ProgressBar,
}

impl<'a> Pass<'a> {
    /// At its start.
    pub fn begin(verb: &str, db: &'a Db) -> Pass<'a> {
        let bytes = db.statistics().levels.iter().map(|level| level.bytes).sum();
        Pass { db, bar: bar(verb, Some(bytes)) }
    }

    /// It has come to `key`.
    pub fn at(&self, key: &[u8]) {
        if !self.bar.is_hidden()
            && let Ok(sizes) = self.db.approximate_sizes(&[(b"", key)])
        {
            self.bar.set_position(sizes[0]);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
