//! Libraries of other stores on this machine: where they lie, where they come from, and what is compiled into them.
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The directory that `make peers` fills: `$TERRACE_PEERS`, by default `~/.cache/terrace/peers`.
pub fn directory() -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("TERRACE_PEERS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        cache.unwrap_or_default().join("terrace/peers")
    })
}

/// What is known about a library without asking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// As whoever put it there wrote beside it; `None` for a library of the system.
    pub version: Option<String>,
    /// Where it came from.
    pub source: String,
    /// Whether the CRC-32C instruction is in its code and this processor has it; `None` if that cannot be told here.
    pub hardware_crc: Option<bool>,
    /// Whether assertions are compiled into it; `None` if it cannot be read.
    pub assertions: Option<bool>,
}

impl Facts {
    /// Reads the library in `file` and the note `<file>.txt` (version and source, one line each) beside it.
    pub fn of(file: &Path) -> Facts {
        let note = fs::read_to_string(format!("{}.txt", file.display())).unwrap_or_default();
        let mut lines = note.lines().map(str::to_owned);
        let code = fs::read(file).ok();
        Facts {
            version: lines.next(),
            source: lines.next().unwrap_or_else(|| format!("the system's {}", file.display())),
            hardware_crc: code.as_deref().and_then(hardware_crc),
            assertions: code.as_deref().map(has_assertions),
        }
    }
}

/// Where the dynamic linker found the library whose file name starts with `name`, outside the directory of
/// `make peers`; `None` before it is loaded, or where the kernel does not tell.
#[cfg(feature = "lab")]
pub(crate) fn of_system(name: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let own = directory();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_named = |path: &Path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
    paths.filter(|path| is_named(path) && !path.starts_with(&own)).map(Path::to_owned).next()
}

/// Looks for `crc32` on eight bytes (F2, REX.W, 0F 38 F1), which every implementation that uses the instruction has.
/// Five given bytes turn up by chance once in some ten thousand libraries of this size; twice, never.
fn hardware_crc(code: &[u8]) -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    {
        let is_crc = |at: &[u8]| at[0] == 0xf2 && at[1] & 0xf8 == 0x48 && at[2..] == [0x0f, 0x38, 0xf1];
        Some(code.windows(5).filter(|at| is_crc(at)).take(2).count() == 2 && is_x86_feature_detected!("sse4.2"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = code;
        None
    }
}

/// Looks for the text of `assert(Valid())`, which guards every iterator of LevelDB and RocksDB and stands in the
/// library only if assertions are compiled.
fn has_assertions(code: &[u8]) -> bool {
    code.windows(8).any(|at| at == b"Valid()\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_told_by_their_text() {
        assert!(has_assertions(b"\x7fELF..!Valid()\0.."));
        assert!(!has_assertions(b"\x7fELF..Valid() is false\0Valid("));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_crc_instruction_is_told_by_its_bytes() {
        let twice = [&[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0x06][..], &[0x90, 0xf2, 0x4d, 0x0f, 0x38, 0xf1, 0xc0]].concat();
        assert_eq!(hardware_crc(&twice), Some(is_x86_feature_detected!("sse4.2")));
        assert_eq!(hardware_crc(&twice[..7]), Some(false));
        assert_eq!(hardware_crc(&[]), Some(false));
    }

    #[test]
    fn a_library_that_is_not_there_has_no_facts() {
        let facts = Facts::of("/nowhere/lib.so".as_ref());
        assert_eq!((facts.version, facts.hardware_crc, facts.assertions), (None, None, None));
    }
}
