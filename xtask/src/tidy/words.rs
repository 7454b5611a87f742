//! Checks words that only certain files may contain: names of I/O and clock functions may be only
//! in their wrappers, and `unsafe` only in the listed files.
use super::{Report, source::Source};

/// Folders whose code must not do I/O, read a clock or use random numbers directly.
const PURE: &[&str] = &["crates/format/src/", "crates/engine/src/"];
/// The only file in the folders of [`PURE`] that may read the clock.
const CLOCK: &str = "crates/engine/src/clock.rs";
const BANNED: &[&str] = &["std::fs", "Instant::now", "SystemTime::now", "RandomState", "thread_rng", "getrandom"];

/// The files and the one folder that may contain `unsafe`. They contain the arena and the skip
/// list of the memtable, memory that the kernel fills, calls of C functions, functions that C
/// calls, ioctls of devices, the counting allocator, and forks in tests.
const UNSAFE: &[&str] = &[
    "crates/capi/src/",
    "crates/device/src/node.rs",
    "crates/device/src/serve/kernel.rs",
    "crates/engine/src/mem/arena.rs",
    "crates/engine/src/mem/skiplist.rs",
    "crates/engine/tests/it/common/counting.rs",
    "crates/engine/tests/it/common/fork.rs",
    "crates/peers/src/ffi.rs",
    "crates/peers/src/ffi/common.rs",
    "crates/peers/src/leveldb/ffi.rs",
    "crates/peers/src/rocksdb/ffi.rs",
    "crates/vfs/src/kernel.rs",
    "crates/vfs/src/bpf/kernel.rs",
    "crates/vfs/src/mapping/",
    "crates/vfs/src/pages.rs",
    "crates/vfs/src/portable/system/windows.rs",
    "crates/vfs/src/process/child.rs",
];

/// Reports restricted words, and crate roots that do not forbid `unsafe`.
pub fn check(sources: &[Source], report: &mut Report) {
    for source in sources {
        let name = source.name.as_str();
        if PURE.iter().any(|folder| name.starts_with(folder)) && name != CLOCK {
            for word in BANNED {
                source.lines_with(word).for_each(|line| {
                    report.problem(format!("{name}:{line}"), format!("{word} has no place here"));
                });
            }
        }
        if !UNSAFE.iter().any(|named| name == *named || named.ends_with('/') && name.starts_with(named)) {
            source.lines_with("unsafe").for_each(|line| {
                report.problem(format!("{name}:{line}"), "unsafe outside the files that xtask/src/tidy/words.rs names");
            });
        }
        let is_root = name.ends_with("/src/lib.rs") || name.ends_with("/src/main.rs");
        if is_root && !source.code.contains("#![forbid(unsafe_code)]") && !source.code.contains("#![deny(unsafe_code)]")
        {
            report.problem(name, "neither forbids nor denies unsafe_code");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_where_they_are_banned() {
        let problems = |name: &str, text: &str| {
            let mut report = Report::default();
            check(&[Source::new((name.into(), text.into()))], &mut report);
            report.problems.len()
        };
        assert_eq!(problems("crates/engine/src/db.rs", "let t = std::time::Instant::now();"), 1);
        assert_eq!(problems(CLOCK, "let t = std::time::Instant::now();"), 0);
        assert_eq!(problems("crates/storage/src/a.rs", "use std::fs;"), 0);
        assert_eq!(problems("crates/format/src/a.rs", "use std::fs;\nunsafe {}"), 2);
        assert_eq!(problems("crates/capi/src/db.rs", "unsafe {}"), 0);
        assert_eq!(problems("crates/capi/build.rs", "unsafe {}"), 1);
        assert_eq!(problems("crates/a/src/lib.rs", ""), 1);
        assert_eq!(problems("crates/a/src/lib.rs", "#![forbid(unsafe_code)]"), 0);
    }
}
