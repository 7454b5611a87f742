//! Generates the page `docs/options.md` from the declarations of the options. A test compares the
//! file with the generated text. Command to update the file:
//!
//! ```sh
//! UPDATE_OPTIONS_PAGE=1 cargo test -p terrace --lib options::page
//! ```
use super::{OptionInfo, Options};
use crate::{PAPER_PRESETS, PRESETS};
use std::{fmt::Write, fs, path::Path};

const HEAD: &str = "\
# Options

<!-- Generated from crates/engine/src/options/table.rs and presets.rs:
     UPDATE_OPTIONS_PAGE=1 cargo test -p terrace --lib options::page -->

An option is a field of `terrace::Options`, an argument `--option NAME=VALUE` of the command line, a named argument of
`terracedb.open` in Python, and `terrace_options_set` in C. Sizes take a unit: `4096`, `64KiB`, `1.5GiB`, `64M`, `1e6`.
Every option starts with the value of a preset. [Tuning](guide/tune.md) says which options to change when.
";

/// Returns the generated page.
fn page() -> String {
    let mut page = HEAD.to_string();
    page += "\n## Presets\n\n| preset | contents |\n|---|---|\n";
    presets(&mut page, PRESETS);
    page += "\nPresets that reproduce the designs of papers:\n\n| preset | contents |\n|---|---|\n";
    presets(&mut page, PAPER_PRESETS);
    let (default, leveldb) = (Options::default().describe(), Options::leveldb_compatible().describe());
    let mut group = "";
    for (option, leveldb) in default.iter().zip(&leveldb) {
        if option.group != group {
            group = option.group;
            let _ = write!(page, "\n## {group}\n");
        }
        describe(&mut page, option, &leveldb.value);
    }
    page
}

fn presets(page: &mut String, presets: &[(&str, &str)]) {
    for (name, contents) in presets {
        let _ = writeln!(page, "| `{name}` | {contents} |");
    }
}

fn describe(page: &mut String, option: &OptionInfo, leveldb: &str) {
    let value = |text: &str| if option.unit == "bytes" { bytes(text) } else { text.to_string() };
    let _ = write!(page, "\n### `{}`\n\nDefault `{}`", option.name, value(&option.value));
    if leveldb != option.value {
        let _ = write!(page, ", in preset `leveldb` `{}`", value(leveldb));
    }
    if let Some((least, most)) = option.bounds {
        let _ = write!(page, ". Bounds `{}` to `{}`", value(&least.to_string()), value(&most.to_string()));
    }
    if !matches!(option.unit, "" | "bytes") {
        let _ = write!(page, ". Unit: {}", option.unit);
    }
    if !option.aliases.is_empty() {
        let aliases: Vec<_> = option.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let _ = write!(page, ". Also called {}", aliases.join(" and "));
    }
    let _ = write!(page, ".\n\n{}\n", without_links(&option.doc));
}

/// Formats a number of bytes in the largest unit that divides it.
fn bytes(text: &str) -> String {
    let Ok(number) = text.parse::<u64>() else { return text.to_string() };
    let units = [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| number > 0 && number % (1 << shift) == 0);
    unit.map_or_else(|| number.to_string(), |(shift, name)| format!("{} {name}", number >> shift))
}

/// Replaces each rustdoc link to an item, such as `` [`Db::get`](crate::Db::get) ``, by its text.
fn without_links(doc: &str) -> String {
    let (mut plain, mut rest) = (String::new(), doc);
    while let Some((before, link)) = rest.split_once("](crate::") {
        let (text, label) = before.rsplit_once('[').expect("a link has a text");
        let _ = write!(plain, "{text}{label}");
        rest = link.split_once(')').expect("a link ends").1;
    }
    plain + rest
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is no file of a store")]
fn the_page_of_options_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    if std::env::var_os("UPDATE_OPTIONS_PAGE").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == page(), "docs/options.md is not current; see this file's header for the command");
}

#[test]
fn every_help_text_is_one_short_sentence() {
    for option in Options::default().describe() {
        assert!(option.help.ends_with('.') && option.help.len() <= 110, "{}: {}", option.name, option.help);
    }
}
