//! Tracks writes to slots (allocation units of a raw device) that no flush has covered yet. With
//! this information a flush writes only the data that it must make durable. This saves device
//! writes, because unsynced data often becomes obsolete before the kernel writes it; the main
//! example is a WAL without syncs.
//!
//! Flushes of different files run in parallel. Flushes of one file do not, because the second
//! flush would report bytes as durable that the first one has not written yet.
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};
use terrace_format::raw::PAGE;

/// The ranges of the device that were written and not flushed since then, by file number.
#[derive(Default)]
pub struct Unflushed {
    of: HashMap<u64, Vec<Range<u64>>>,
    /// Files that the next commit makes durable. A commit is one flush of all such files.
    due: BTreeSet<u64>,
    /// Files with a running flush. The flag is true if the next commit had to cover the file when
    /// the flush began.
    running: BTreeMap<u64, bool>,
}

/// The files and ranges of one flush.
pub struct Flushing {
    files: Vec<u64>,
    pub ranges: Vec<Range<u64>>,
}

impl Unflushed {
    /// Records a write of `len` bytes of `file` at device offset `at`.
    pub fn wrote(&mut self, file: u64, at: u64, len: u64) {
        let page = PAGE as u64;
        let (from, end) = (at - at % page, (at + len).next_multiple_of(page));
        let ranges = self.of.entry(file).or_default();
        match ranges.last_mut() {
            Some(last) if last.start <= from && from <= last.end => last.end = last.end.max(end),
            _ => ranges.push(from..end),
        }
    }

    /// Adds `file` to the files that the next commit covers.
    pub fn is_due(&mut self, file: u64) {
        self.due.insert(file);
    }

    /// Removes a deleted file from the lists.
    pub fn forget(&mut self, file: u64) {
        self.of.remove(&file);
        self.due.remove(&file);
    }

    /// Begins a flush of `file`. Returns `None` while another flush of this file is running.
    pub fn begin(&mut self, file: u64) -> Option<Flushing> {
        let is_free = !self.running.contains_key(&file);
        is_free.then(|| self.flushing(vec![file]))
    }

    /// Begins a commit: a flush of all files that wait for a commit. Returns `None` while another
    /// commit, or a flush of one of the waiting files, is running.
    pub fn begin_commit(&mut self) -> Option<Flushing> {
        let is_free = !self.running.iter().any(|(file, was_due)| *was_due || self.due.contains(file));
        is_free.then(|| self.flushing(self.due.iter().copied().collect()))
    }

    fn flushing(&mut self, files: Vec<u64>) -> Flushing {
        let mut ranges = Vec::new();
        for file in &files {
            self.running.insert(*file, self.due.remove(file));
            ranges.extend(self.of.remove(file).unwrap_or_default());
        }
        Flushing { files, ranges }
    }

    /// Ends a flush, whether it succeeded or not.
    pub fn end(&mut self, flushing: &Flushing) {
        for file in &flushing.files {
            self.running.remove(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_writes_are_one_range_and_flushed_once() {
        let mut unflushed = Unflushed::default();
        for (file, at, len) in [(1, 4096, 4096), (2, 16384, 10), (1, 8192, 8192), (1, 12290, 4096), (1, 40960, 1)] {
            unflushed.wrote(file, at, len);
        }
        unflushed.is_due(2);
        assert_eq!(taken(&mut unflushed, None), vec![16384..20480]);
        assert_eq!(taken(&mut unflushed, Some(1)), [4096..20480, 40960..45056]);
        assert!(taken(&mut unflushed, Some(1)).is_empty() && taken(&mut unflushed, None).is_empty());
        unflushed.wrote(3, 0, 1);
        unflushed.is_due(3);
        unflushed.forget(3);
        assert!(taken(&mut unflushed, None).is_empty());
    }

    fn taken(unflushed: &mut Unflushed, file: Option<u64>) -> Vec<Range<u64>> {
        let flushing = match file {
            Some(file) => unflushed.begin(file),
            None => unflushed.begin_commit(),
        };
        let flushing = flushing.expect("no other one is running");
        unflushed.end(&flushing);
        flushing.ranges
    }

    #[test]
    fn a_flush_waits_for_a_running_flush_of_the_same_file() {
        let mut unflushed = Unflushed::default();
        (1..=3).for_each(|file| unflushed.wrote(file, file * 4096, 1));
        let log = unflushed.begin(1).unwrap();
        assert!(unflushed.begin(1).is_none());
        unflushed.is_due(2);
        let commit = unflushed.begin_commit().unwrap();
        assert_eq!(commit.ranges, vec![8192..12288]);
        assert!(unflushed.begin(2).is_none() && unflushed.begin_commit().is_none());
        let other = unflushed.begin(3).unwrap();
        unflushed.end(&commit);
        unflushed.is_due(3);
        assert!(unflushed.begin_commit().is_none(), "a due file is being flushed");
        [other, log].iter().for_each(|one| unflushed.end(one));
        assert!(unflushed.begin_commit().unwrap().ranges.is_empty());
    }
}
