//! The text form of options, which `terrace options` prints and `--options FILE` reads.
//!
//! ```text
//! # a comment
//! preset=default              the first setting; may be left out, then it is default
//! write_buffer_size=64MiB     one option a line; other options keep the preset's values
//! ```
use super::{Options, Spec, table::SPECS};
use crate::{Error, Result};
use std::fmt::Write;

/// Returns the option with the name or the alias `name`.
///
/// # Errors
/// [`Error::Invalid`] with the most similar name, or with all names if no name is similar.
pub(super) fn find(name: &str) -> Result<&'static Spec> {
    let has_name = |spec: &&Spec| spec.name == name || spec.aliases.contains(&name);
    SPECS.iter().find(has_name).ok_or_else(|| {
        let names = SPECS.iter().flat_map(|spec| [spec.name].into_iter().chain(spec.aliases.iter().copied()));
        unknown("option", name, names)
    })
}

/// Returns the error that `typed` is not the name of a `noun`. The error contains the most similar
/// name, or all names if no name is similar.
pub(crate) fn unknown<'a>(noun: &str, typed: &str, names: impl Iterator<Item = &'a str> + Clone) -> Error {
    let near = nearest(typed, names.clone());
    let is_near = near.contains(typed) || 2 * edit_distance(typed, near) <= typed.len().max(near.len());
    Error::Invalid(if is_near {
        format!("unknown {noun} {typed}; did you mean {near}?")
    } else {
        format!("unknown {noun} {typed}; there are {}", names.collect::<Vec<_>>().join(", "))
    })
}

/// Returns the name that is most similar to `typed`. This is a name that contains `typed`, or else
/// the name with the smallest edit distance. Each letter of a common beginning reduces the
/// distance by half an edit.
fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    let typed = plain(typed);
    let cost = |name: &str| {
        let name = plain(name);
        let beginning = typed.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
        let contains = typed.len() > 2 && name.contains(&typed);
        (!contains, 2 * edit_distance(&typed, &name) as i64 - beginning as i64)
    };
    names.min_by_key(|name| cost(name)).unwrap_or_default()
}

/// Returns the edit distance (Levenshtein) from `a` to `b`: the number of insertions, removals and
/// substitutions.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.chars().enumerate() {
            let substituted = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

impl Options {
    /// Returns all options as a text, each with its help. [`from_text`](Options::from_text) reads
    /// this text. A custom comparator, filter policy and listener have no text form.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// use terrace::Options;
    /// let mut options = Options::preset("leveldb")?;
    /// options.set("block_cache_size", "1GiB")?;
    /// let again = Options::from_text(&options.to_text())?;
    /// assert_eq!((again.preset_name(), again.block_cache_size), ("leveldb", 1 << 30));
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = format!("# Options of Terrace {}.\n", env!("CARGO_PKG_VERSION"));
        let _ = write!(text, "# An option that is left out has its preset's value.\npreset={}\n", self.preset_name());
        for option in self.describe() {
            let unit = if option.unit.is_empty() { String::new() } else { format!(" [{}]", option.unit) };
            let _ = write!(text, "\n# {}{unit}\n{}={}\n", option.help, option.name, option.value);
        }
        text
    }

    /// Parses options from a text in the form that [`to_text`](Options::to_text) writes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown option, a bad value, or an option that is set twice; the
    /// error contains the line number. [`Error::Invalid`] without a line number for values that
    /// contradict each other.
    ///
    /// ```
    /// # use terrace::Options;
    /// let options = Options::from_text("preset = leveldb\n\n# a larger cache\nblock_cache_size = 1GiB\n")?;
    /// assert_eq!((options.preset_name(), options.block_cache_size), ("leveldb", 1 << 30));
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
            let setting = options.apply_line(line, &mut seen);
            setting.map_err(|error| match error {
                Error::Invalid(problem) => Error::Invalid(format!("line {}: {problem}", number + 1)),
                other => other,
            })?;
        }
        options.validate()?;
        Ok(options)
    }

    /// Applies the setting in `line`. `seen` has the names of the options that earlier lines have
    /// set; the new name is added.
    fn apply_line(&mut self, line: &str, seen: &mut Vec<&'static str>) -> Result<()> {
        let invalid = |problem: String| Err(Error::Invalid(problem));
        let Some((name, value)) = line.split_once('=') else {
            return invalid(format!("{line:?} is not of the form name=value"));
        };
        let (name, value) = (name.trim(), value.trim());
        let name = if name == "preset" { "preset" } else { find(name)?.name };
        match name {
            _ if seen.contains(&name) => return invalid(format!("{name} is set twice")),
            "preset" if seen.is_empty() => *self = Options::preset(value)?,
            "preset" => return invalid("the preset must come before all options".into()),
            _ => self.set(name, value)?,
        }
        seen.push(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAPER_PRESETS, PRESETS};

    #[test]
    fn presets_round_trip_through_text() {
        for (name, _) in PRESETS.iter().chain(PAPER_PRESETS) {
            let mut options = Options::preset(name).unwrap();
            options.set("write_buffer_size", "123KiB").unwrap();
            let again = Options::from_text(&options.to_text()).unwrap();
            assert_eq!((format!("{again:?}"), again.preset_name()), (format!("{options:?}"), *name));
        }
    }

    #[test]
    fn errors_in_a_text_name_line_and_option() {
        for (text, words) in [
            ("\n# none\nmax_compactions=1", "line 3: unknown option max_compactions; did you mean max_subcompactions?"),
            ("bloom_bits = 10\nfilter_policy=11", "line 2: bloom_bits is set twice"),
            ("bloom_bits=10\npreset=leveldb", "line 2: the preset must come before"),
            ("preset=fast", "line 1: unknown preset fast; there are default, leveldb, "),
            ("bloom_bits", "line 1: \"bloom_bits\" is not of the form"),
            ("bloom_bits=many", "line 1: option bloom_bits=many: expected a whole number"),
            ("bloom_bits=101", "bloom_bits is 101; it must be between 0 and 100"),
        ] {
            let found = Options::from_text(text).unwrap_err().to_string();
            assert!(found.contains(words), "{text:?}: {found}");
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_name() {
        let option = |typed| nearest(typed, SPECS.iter().map(|spec| spec.name));
        for (typed, name) in [
            ("write-buffer-size", "write_buffer_size"),
            ("memory", "memory_budget"),
            ("blockcachesize", "block_cache_size"),
            ("max_write_buffers", "max_write_buffer_number"),
            ("level0_stop_trigger", "level0_stop_writes_trigger"),
            ("durable", "durability"),
        ] {
            assert_eq!(option(typed), name, "{typed}");
        }
    }

    #[test]
    fn aliases_set_the_option_and_names_are_unique() {
        let mut options = Options::default();
        for (alias, text) in [("block_cache", "1MiB"), ("max_file_size", "3MiB"), ("use_mmap_reads", "on")] {
            options.set(alias, text).unwrap();
        }
        let set = (options.block_cache_size, options.target_file_size, options.allow_mmap_reads);
        assert_eq!(set, (1 << 20, 3 << 20, true));
        let names = SPECS.iter().flat_map(|spec| spec.aliases.iter().chain([&spec.name]));
        let mut names: Vec<_> = names.collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
