//! Names of files in `lost/`, the folder with copies of files that were set aside.
use terrace_format::FileName;

/// Returns the name that a file had before a copy of it was set aside in `lost/` under `name`.
/// Returns `None` if neither Terrace nor LevelDB's repair made the copy.
pub fn set_aside_from(name: &str) -> Option<FileName> {
    let numbered =
        name.rsplit_once('-').filter(|(_, copy)| !copy.is_empty() && copy.bytes().all(|b| b.is_ascii_digit()));
    let stem = numbered.map_or(name, |(stem, _)| stem);
    // A copy may have the name of its original, or this name with a hyphen and a number. The
    // original name `MANIFEST-000005` also ends in a number. So the whole name is parsed first.
    FileName::parse(name).or_else(|| FileName::parse(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies_set_aside_are_recognised() {
        for name in ["000005.log", "000005.log-2", "MANIFEST-000005", "MANIFEST-000005-12", "000007.ldb"] {
            assert!(set_aside_from(name).is_some(), "{name}");
        }
        for name in ["notes.txt", "notes-2", "000005.log-", "000005.log-x", "-2"] {
            assert!(set_aside_from(name).is_none(), "{name}");
        }
    }
}
