//! The seeds of fuzzing: the golden files of LevelDB and Terrace, whole and in parts.
use super::raw;
use std::{
    fs,
    path::{Path, PathBuf},
};
use terrace::{Options, PAPER_PRESETS, PRESETS};
use terrace_format::{
    FileName, KeyOrder, RangeTombstones, SeqNo,
    footer::{FOOTER_BYTES, Footer, open_block},
    log_record::{Event, RecordDecoder},
};

/// An input for a target.
pub struct Seed {
    /// Name of the target.
    pub target: &'static str,
    /// Name of the golden file, and the part of it.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Returns all seeds. `golden` is the folder of golden files.
pub fn seeds(golden: &Path) -> Vec<Seed> {
    let mut seeds = Vec::new();
    for path in files_below(golden) {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let mut add = |target, part: &str, bytes: &[u8]| {
            let name = format!("{folder}-{file}{part}");
            seeds.push(Seed { target, name, bytes: bytes.to_vec() });
        };
        match FileName::parse(&file) {
            Some(FileName::Table(_)) => take_table_apart(&bytes, &mut add),
            Some(FileName::Log(_)) => take_log_apart(&bytes, "batch", &mut add),
            Some(FileName::Manifest(_)) => take_log_apart(&bytes, "edit", &mut add),
            Some(FileName::Current) => add("marker", "", &bytes),
            _ if file == "long.manifest" => take_log_apart(&bytes, "edit", &mut add),
            _ if file.ends_with(".hex") => {
                let bytes = from_hex(&bytes);
                for target in ["marker", "log", "edit", "filter", "pair", "value_log"] {
                    add(target, "", &bytes);
                }
                (0..5).for_each(|codec| add("compress", &format!("-{codec}"), &[&[codec], &bytes[..]].concat()));
            }
            _ => {}
        }
    }
    for (number, key) in ["", "a", "abc1abd", "user key\x7f\u{ff}user kez"].into_iter().enumerate() {
        let bytes = [&[key.len() as u8 / 2], key.as_bytes()].concat();
        seeds.push(Seed { target: "key", name: format!("pair-{number}"), bytes });
    }
    for (preset, _) in PRESETS.iter().chain(PAPER_PRESETS) {
        let options = Options::preset(preset).expect("a preset of the list");
        let (long, short) =
            (options.to_text(), format!("preset={preset}\nwrite_buffer_size=1MiB\nallow_mmap_reads=on\n"));
        for (name, text) in [("all", long), ("few", short)] {
            seeds.push(Seed { target: "options", name: format!("{preset}-{name}"), bytes: text.into_bytes() });
        }
    }
    let (mut deletes, order) = (RangeTombstones::default(), KeyOrder::Bytewise);
    for (number, (from, to)) in [("", "a"), ("b", "z"), ("k", "kk"), ("c", "d"), ("b", "c")].into_iter().enumerate() {
        deletes.insert(&order, from.as_bytes(), to.as_bytes(), SeqNo(number as u64 + 1));
        seeds.push(Seed { target: "range_tombstones", name: format!("first-{number}"), bytes: deletes.encode() });
    }
    for (number, bytes) in raw::seeds().into_iter().enumerate() {
        seeds.push(Seed { target: "raw", name: format!("history-{number}"), bytes });
    }
    for how in 0..8_u8 {
        for file in 0..8_u8 {
            let harm = [how, file, file, 100, file, 0, 0x55, 1];
            seeds.push(Seed { target: "store", name: format!("harm-{how}-{file}"), bytes: harm.to_vec() });
        }
    }
    seeds
}

fn take_table_apart(bytes: &[u8], add: &mut impl FnMut(&'static str, &str, &[u8])) {
    add("table", "", bytes);
    let footer = Footer::decode(&bytes[bytes.len() - FOOTER_BYTES..]).expect("a golden table");
    for (part, handle) in [("-index", footer.index), ("-metaindex", footer.metaindex)] {
        let end = handle.end().expect("a golden table") as usize;
        let (codec, stored) = open_block(&bytes[handle.offset as usize..end], true).expect("a golden table");
        let contents = terrace_format::compress::decompress(codec, stored).expect("a golden table");
        add("block", part, &contents);
        add("compress", part, &[&[codec], stored].concat());
    }
}

fn take_log_apart(bytes: &[u8], of: &'static str, add: &mut impl FnMut(&'static str, &str, &[u8])) {
    add("log", "", bytes);
    let mut deframer = RecordDecoder::new(bytes.len() as u64);
    for number in 0..8 {
        let next = deframer.next(|offset, buffer: &mut [u8]| -> Result<(), ()> {
            buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
            Ok(())
        });
        let Ok(Event::Record { bytes, .. }) = next else { return };
        add(of, &format!("-{number}"), &bytes);
    }
}

/// Decodes a file of hexadecimal digits whose lines may end in a comment.
fn from_hex(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let digits: Vec<u32> = text
        .lines()
        .filter_map(|line| line.split('#').next())
        .flat_map(str::chars)
        .filter_map(|c| c.to_digit(16))
        .collect();
    digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Returns every file below `folder`, sorted.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("listed").path()).collect();
    found = found.into_iter().flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect();
    found.sort();
    found
}
