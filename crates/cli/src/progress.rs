//! Progress bars of commands that take long. They are shown on standard error if it is a terminal.
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use terrace::ColumnFamily;

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

/// The progress bar of a pass over all keys of a column family. It shows the estimated number of
/// SSTable bytes before the present key.
pub struct Pass {
    family: ColumnFamily,
    bar: ProgressBar,
}

impl Pass {
    /// Starts a pass.
    pub fn begin(verb: &str, family: ColumnFamily) -> Pass {
        let levels = family.layout().unwrap_or_default(); // without them, the bar has no end
        let bytes = levels.iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
        Pass { family, bar: bar(verb, Some(bytes)) }
    }

    /// Records that the pass has reached `key`.
    pub fn at(&self, key: &[u8]) {
        if !self.bar.is_hidden()
            && let Ok(sizes) = self.family.approximate_sizes(&[(b"", key)])
        {
            self.bar.set_position(sizes[0]);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
