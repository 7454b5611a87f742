//! What was written to slots and no flush has covered yet, so that a flush writes what it is for: what nobody has asked to be durable,
//! above all a log without syncs, is often gone before the kernel writes it.
use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};
use terrace_format::raw::PAGE;

/// Ranges of the device, by the number of the file that they belong to.
#[derive(Default)]
pub struct Unflushed {
    of: HashMap<u64, Vec<Range<u64>>>,
    /// Files that the next commit is for.
    due: BTreeSet<u64>,
}

impl Unflushed {
    /// `len` bytes of `file` were written at `at`.
    pub fn wrote(&mut self, file: u64, at: u64, len: u64) {
        let page = PAGE as u64;
        let (from, end) = (at - at % page, (at + len).next_multiple_of(page));
        let ranges = self.of.entry(file).or_default();
        match ranges.last_mut() {
            Some(last) if last.start <= from && from <= last.end => last.end = last.end.max(end),
            _ => ranges.push(from..end),
        }
    }

    /// The next commit is for `file`, too.
    pub fn is_due(&mut self, file: u64) {
        self.due.insert(file);
    }

    /// Nobody will look for `file` again.
    pub fn forget(&mut self, file: u64) {
        self.of.remove(&file);
        self.due.remove(&file);
    }

    /// What a flush for `file` is about to cover.
    pub fn take(&mut self, file: u64) -> Vec<Range<u64>> {
        self.due.remove(&file);
        self.of.remove(&file).unwrap_or_default()
    }

    /// What a commit is about to cover.
    pub fn take_due(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.due).into_iter().filter_map(|file| self.of.remove(&file)).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range_and_each_is_taken_once() {
        let mut unflushed = Unflushed::default();
        for (file, at, len) in [(1, 4096, 4096), (2, 16384, 10), (1, 8192, 8192), (1, 12290, 4096), (1, 40960, 1)] {
            unflushed.wrote(file, at, len);
        }
        unflushed.is_due(2);
        assert_eq!(unflushed.take_due().pop(), Some(16384..20480));
        assert_eq!(unflushed.take(1), [4096..20480, 40960..45056]);
        assert!(unflushed.take(1).is_empty() && unflushed.take_due().is_empty());
        unflushed.wrote(3, 0, 1);
        unflushed.is_due(3);
        unflushed.forget(3);
        assert!(unflushed.take_due().is_empty());
    }
}
