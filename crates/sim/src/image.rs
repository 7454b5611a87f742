//! The contents of a directory at one moment, for example in a crash state (the contents after a
//! simulated power cut).
use crate::{CrashFs, Rules};
use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};
use terrace_storage::backends::files::fs::FileSystem;

/// The bytes of one file. Recorded files only grow, so an earlier state is a shorter view of the
/// same memory. Pages that never reached the disk are ranges of zeros. Creating a view copies
/// nothing.
#[derive(Clone, Default)]
pub(crate) struct Content {
    data: Arc<Vec<u8>>,
    /// Size in bytes. Bytes past `data.len()` are zeros.
    bytes: usize,
    /// Ranges that read as zeros, ascending and not adjacent.
    zeros: Arc<[Range<usize>]>,
}

impl Content {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends to a recorded file. A file of an image is never appended to.
    pub fn append(&mut self, more: &[u8]) {
        debug_assert_eq!(self.bytes, self.data.len(), "a view of a longer file cannot grow");
        Arc::make_mut(&mut self.data).extend_from_slice(more);
        self.bytes = self.data.len();
    }

    /// Returns the first `bytes` bytes of the file. The ranges `zeros` (ascending, disjoint) read
    /// as zeros instead of the written bytes.
    pub fn view(&self, bytes: usize, zeros: Vec<Range<usize>>) -> Content {
        debug_assert!(bytes <= self.bytes && (zeros.is_empty() || self.zeros.is_empty()));
        let zeros = if zeros.is_empty() { self.zeros.clone() } else { zeros.into() };
        Content { data: self.data.clone(), bytes, zeros }
    }

    /// Returns a view in which `ranges`, given in any order, also read as zeros.
    pub fn without(&self, ranges: impl Iterator<Item = Range<usize>>) -> Content {
        let mut all: Vec<_> = self.zeros.iter().cloned().chain(ranges).collect();
        if all.len() == self.zeros.len() {
            return self.clone();
        }
        all.sort_by_key(|zeros| zeros.start);
        let mut zeros: Vec<Range<usize>> = Vec::new();
        for next in all.into_iter().map(|range| range.start.min(self.bytes)..range.end.min(self.bytes)) {
            match zeros.last_mut().filter(|last| next.start <= last.end) {
                Some(last) => last.end = last.end.max(next.end),
                None => zeros.push(next),
            }
        }
        Content { data: self.data.clone(), bytes: self.bytes, zeros: zeros.into() }
    }

    /// Returns a view padded with zeros to a multiple of `unit`.
    pub fn padded(&self, unit: usize) -> Content {
        let bytes = self.bytes.next_multiple_of(unit);
        let zeros = self.zeros.iter().cloned().chain((bytes > self.bytes).then_some(self.bytes..bytes));
        Content { data: self.data.clone(), bytes, zeros: zeros.collect() }
    }

    /// Fills `buf` from `offset`. Returns false if the file is too short.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> bool {
        let Some(end) = usize::try_from(offset).ok().and_then(|from| from.checked_add(buf.len())) else { return false };
        if end > self.bytes {
            return false;
        }
        let from = end - buf.len();
        let present = from.min(self.data.len())..end.min(self.data.len());
        // The bytes after the end of the data are among `zeros`.
        buf[..present.len()].copy_from_slice(&self.data[present]);
        let first = self.zeros.partition_point(|zeros| zeros.end <= from);
        for zeros in self.zeros[first..].iter().take_while(|zeros| zeros.start < end) {
            buf[zeros.start.max(from) - from..zeros.end.min(end) - from].fill(0);
        }
        true
    }
}

/// All files of a directory at one moment. Cheap to create, to clone and to open.
#[derive(Clone)]
pub struct Image {
    /// Whether the directory itself exists.
    pub(crate) made: bool,
    pub(crate) files: BTreeMap<Arc<str>, Content>,
}

impl Image {
    /// Returns a new in-memory directory with these contents. It is writable, unlocked, and
    /// independent of all others.
    pub fn file_system(&self) -> Arc<dyn FileSystem> {
        Arc::new(CrashFs::from_image(self, Rules::Ext4))
    }

    /// Returns names and sizes in bytes, sorted by name, including files below `lost/`.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|(name, content)| (&**name, content.bytes as u64))
    }

    /// Returns the contents of one file, if it exists.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let content = self.files.get(name)?;
        let mut bytes = vec![0; content.bytes];
        content.read(&mut bytes, 0).then_some(bytes)
    }
}

/// Prints one line: names, sizes, and for each file the number of bytes that never reached the
/// disk.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.made {
            return f.write_str("(no directory)");
        }
        let describe = |content: &Content| match content.zeros.iter().map(Range::len).sum::<usize>() {
            0 => format!("{} B", content.bytes),
            lost => format!("{} B of which {lost} B are lost", content.bytes),
        };
        f.debug_map().entries(self.files.iter().map(|(name, content)| (name, describe(content)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_share_memory_and_have_zeros_for_missing_pages() {
        let mut content = Content::default();
        content.append(b"0123456789");
        let view = content.view(8, vec![1..3, 5..7]);
        content.append(b"more");
        let mut buf = [9; 6];
        assert!(view.read(&mut buf, 2));
        assert_eq!(&buf, b"\x0034\0\x007");
        assert!(!view.read(&mut buf, 3));
        assert!(!view.read(&mut buf, u64::MAX));
        assert!(content.read(&mut buf, 8));
        assert_eq!(&buf, b"89more");
    }
}
