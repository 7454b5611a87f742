//! Finds the shared libraries of other key-value stores on this machine, and determines their
//! source and how they were compiled.
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Returns the directory into which `make peers` installs libraries: `$TERRACE_PEERS`, by default
/// `~/.cache/terrace/peers`.
pub fn directory() -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("TERRACE_PEERS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        cache.unwrap_or_default().join("terrace/peers")
    })
}

/// Properties of a shared library that are read from its files. No function of the library is
/// called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryInfo {
    /// Version from the note (a text file) next to the library. `None` for a library of the system,
    /// which has no note.
    pub version: Option<String>,
    /// Source of the library, such as a package or a source build.
    pub source: String,
    /// Whether the library's code contains the CRC-32C instruction and this processor supports the
    /// instruction. `None` if this cannot be determined on this platform.
    pub hardware_crc: Option<bool>,
    /// Whether assertions are compiled in; `None` if the file cannot be read.
    pub assertions: Option<bool>,
}

impl LibraryInfo {
    /// Reads the library in `file` and the note next to it, the file `<file>.txt`. The note has the
    /// version and the source, one line each.
    pub fn of(file: &Path) -> LibraryInfo {
        let note = fs::read_to_string(format!("{}.txt", file.display())).unwrap_or_default();
        let mut lines = note.lines().map(str::to_owned);
        let code = fs::read(file).ok();
        LibraryInfo {
            version: lines.next(),
            source: lines.next().unwrap_or_else(|| format!("the system's {}", file.display())),
            hardware_crc: code.as_deref().and_then(hardware_crc),
            assertions: code.as_deref().map(has_assertions),
        }
    }
}

/// Returns the path from which the dynamic linker loaded the library whose file name starts with
/// `name`. Libraries in the directory of `make peers` are ignored. Returns `None` if no such
/// library is loaded, or if the kernel does not show the process's mappings.
#[cfg(feature = "lab")]
pub(crate) fn of_system(name: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let own = directory();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_named = |path: &Path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
    paths.filter(|path| is_named(path) && !path.starts_with(&own)).map(Path::to_owned).next()
}

/// Returns whether `code` uses the CRC-32C instruction. Searches for the instruction `crc32` on
/// eight bytes (F2, REX.W, 0F 38 F1), which every such implementation contains. By chance, these
/// bytes occur once in about one of ten thousand libraries, and practically never twice, so two
/// occurrences are required.
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

/// Searches `code` for the text `assert(Valid())`. This assertion guards every iterator of LevelDB
/// and RocksDB. The library contains its text only if assertions are compiled in.
fn has_assertions(code: &[u8]) -> bool {
    code.windows(8).any(|at| at == b"Valid()\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_detected_by_their_text() {
        assert!(has_assertions(b"\x7fELF..!Valid()\0.."));
        assert!(!has_assertions(b"\x7fELF..Valid() is false\0Valid("));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_crc_instruction_is_detected_by_its_bytes() {
        let twice = [&[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0x06][..], &[0x90, 0xf2, 0x4d, 0x0f, 0x38, 0xf1, 0xc0]].concat();
        assert_eq!(hardware_crc(&twice), Some(is_x86_feature_detected!("sse4.2")));
        assert_eq!(hardware_crc(&twice[..7]), Some(false));
        assert_eq!(hardware_crc(&[]), Some(false));
    }

    #[test]
    fn a_missing_library_has_no_info() {
        let info = LibraryInfo::of("/nowhere/lib.so".as_ref());
        assert_eq!((info.version, info.hardware_crc, info.assertions), (None, None, None));
    }
}
