//! Progress bars. They are shown on standard error if it is a terminal.
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use terrace::Db;

/// Returns a bar with the label `verb` for `bytes` bytes. If the total is unknown, returns a
/// spinner.
pub fn bar(verb: &str, bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{wide_bar} {bytes}/{total_bytes}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}"),
    };
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_style(ProgressStyle::with_template(&format!("{verb} {template}")).expect("the template is valid"))
}

/// The progress bar of a pass over all keys of a store. It shows the estimated number of SSTable
/// bytes before the present key.
pub struct Pass<'a> {
    db: &'a Db,
    bar: ProgressBar,
}

impl<'a> Pass<'a> {
    /// Starts a pass.
    pub fn begin(verb: &str, db: &'a Db) -> Pass<'a> {
        let bytes = db.statistics().levels.iter().map(|level| level.bytes).sum();
        Pass { db, bar: bar(verb, Some(bytes)) }
    }

    /// Records that the pass has reached `key`.
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
