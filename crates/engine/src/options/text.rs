//! Options as a text file: what `terrace options` prints, and `--options FILE` reads.
//!
//! ```text
//! # a comment
//! preset=terrace-block        the first setting, if it is there; else the preset is default
//! write_buffer_size=64MiB        one option a line; what is left out keeps the preset's value
//! ```
use super::{FIELDS, Options};
use crate::{Error, Result};
use std::fmt::Write;

/// Names that options have in LevelDB and RocksDB, and their names here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("write_buffer_size", "write_buffer_size"),
    ("max_write_buffer_number", "max_write_buffer_number"),
    ("max_file_size", "target_file_size"),
    ("target_file_size_base", "target_file_size"),
    ("block_size", "block_size"),
    ("block_restart_interval", "block_restart_interval"),
    ("block_cache", "block_cache_size"),
    ("filter_policy", "bloom_bits"),
    ("max_open_files", "max_open_files"),
    ("max_bytes_for_level_base", "max_bytes_for_level_base"),
    ("level0_file_num_compaction_trigger", "level0_file_num_compaction_trigger"),
    ("level0_slowdown_writes_trigger", "level0_slowdown_writes_trigger"),
    ("level0_stop_writes_trigger", "level0_stop_writes_trigger"),
    ("max_background_jobs", "max_background_compactions"),
    ("max_subcompactions", "max_subcompactions"),
    ("use_mmap_reads", "allow_mmap_reads"),
    ("max_manifest_file_size", "max_manifest_file_size"),
];

/// Why `name` is refused.
pub(super) fn unknown(name: &str) -> Error {
    let text = match ELSEWHERE.iter().find(|(theirs, _)| *theirs == name) {
        Some((_, ours)) => format!("no option is named {name:?}; what others call so is {ours:?} here"),
        None => {
            let names: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
            format!("no option is named {name:?}; there are {}", names.join(", "))
        }
    };
    Error::Invalid(text)
}

impl Options {
    /// All of them as a text file, each with what it is. [`from_text`](Options::from_text) reads it. A comparator and a filter
    /// policy of one's own are not in it.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// use terrace::Options;
    /// let mut options = Options::preset("terrace-block")?;
    /// options.set("block_cache_size", "1GiB")?;
    /// let again = Options::from_text(&options.to_text())?;
    /// assert_eq!((again.preset_name(), again.block_cache_size), ("terrace-block", 1 << 30));
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = format!("# Options of Terrace {}. What is left out keeps its\n", env!("CARGO_PKG_VERSION"));
        let _ = write!(text, "# preset's value.\npreset={}\n", self.preset_name());
        for (name, value, help) in self.describe() {
            let _ = write!(text, "\n# {help}\n{name}={value}\n");
        }
        text
    }

    /// The options that a text file asks for; see [`to_text`](Options::to_text) for its form.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the line, for a name that there is not, a value that will not do, or a name that is there twice.
    ///
    /// ```
    /// # use terrace::Options;
    /// let options = Options::from_text("preset = terrace-block\n\n# more than the preset has\ncache_bytes = 1GiB\n")?;
    /// assert_eq!((options.preset_name(), options.block_cache_size), ("terrace-block", 1 << 30));
    /// let error = Options::from_text("cache = 1GiB").unwrap_err();
    /// assert!(error.to_string().contains("line 1"));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn from_text(text: &str) -> Result<Options> {
        let (mut options, mut seen) = (Options::default(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |problem: String| Error::Invalid(format!("line {}: {problem}", number + 1));
            let (name, value) =
                line.split_once('=').ok_or_else(|| at(format!("{line:?} is not of the form name=value")))?;
            let (name, value) = (name.trim(), value.trim());
            if seen.contains(&name) {
                return Err(at(format!("{name} is there twice")));
            }
            let done = match name {
                "preset" if seen.is_empty() => Options::preset(value).map(|preset| options = preset),
                "preset" => Err(Error::Invalid("the preset comes before all options".into())),
                _ => options.set(name, value),
            };
            done.map_err(|error| match error {
                Error::Invalid(problem) => at(problem),
                other => other,
            })?;
            seen.push(name);
        }
        options.validate()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PRESETS;

    #[test]
    fn every_preset_survives_its_text() {
        for (name, _) in PRESETS {
            let mut options = Options::preset(name).unwrap();
            options.set("write_buffer_size", "123KiB").unwrap();
            let again = Options::from_text(&options.to_text()).unwrap();
            assert_eq!((format!("{again:?}"), again.preset_name()), (format!("{options:?}"), *name));
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_line_and_name() {
        for (text, words) in [
            ("\n# none\nnonsense=1", "line 3: no option is named \"nonsense\"; there are create_if_missing"),
            (
                "write_buffer_size=1",
                "line 1: no option is named \"write_buffer_size\"; what others call so is \"write_buffer_size\"",
            ),
            ("bloom_bits = 10\nbloom_bits=11", "line 2: bloom_bits is there twice"),
            ("bloom_bits=10\npreset=leveldb", "line 2: the preset comes before"),
            ("preset=fast", "line 1: no preset is named \"fast\""),
            ("bloom_bits", "line 1: \"bloom_bits\" is not of the form"),
            ("bloom_bits=many", "line 1: option bloom_bits=many"),
            ("bloom_bits=101", "bloom_bits is 101"),
        ] {
            let found = Options::from_text(text).unwrap_err().to_string();
            assert!(found.contains(words), "{text:?}: {found}");
        }
        assert!(ELSEWHERE.iter().all(|(_, ours)| FIELDS.iter().any(|field| field.name == *ours)));
    }
}
