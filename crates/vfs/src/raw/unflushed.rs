//! What was written to slots and no flush has covered yet, so that a flush writes what it is for: what nobody has asked to be durable,
//! above all a log without syncs, is often gone before the kernel writes it. Flushes for different files may run side by side, those for
//! one file do not: the second would promise what the first has not written.
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};
use terrace_format::raw::PAGE;

/// Ranges of the device, by the number of the file that they belong to.
#[derive(Default)]
pub struct Unflushed {
    of: HashMap<u64, Vec<Range<u64>>>,
    /// Files that the next commit is for.
    due: BTreeSet<u64>,
    /// Files that a flush has begun for, and whether they were due.
    under_way: BTreeMap<u64, bool>,
}

/// What a flush covers.
pub struct Flushing {
    files: Vec<u64>,
    pub ranges: Vec<Range<u64>>,
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

    /// A flush for `file` begins; `None` while there is one already.
    pub fn begin(&mut self, file: u64) -> Option<Flushing> {
        let is_free = !self.under_way.contains_key(&file);
        is_free.then(|| self.flushing(vec![file]))
    }

    /// A commit begins; `None` while another flush has something that it would be for.
    pub fn begin_commit(&mut self) -> Option<Flushing> {
        let is_free = !self.under_way.iter().any(|(file, was_due)| *was_due || self.due.contains(file));
        is_free.then(|| self.flushing(self.due.iter().copied().collect()))
    }

    fn flushing(&mut self, files: Vec<u64>) -> Flushing {
        let mut ranges = Vec::new();
        for file in &files {
            self.under_way.insert(*file, self.due.remove(file));
            ranges.extend(self.of.remove(file).unwrap_or_default());
        }
        Flushing { files, ranges }
    }

    /// It is over, however it went.
    pub fn end(&mut self, flushing: &Flushing) {
        for file in &flushing.files {
            self.under_way.remove(file);
        }
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
        let flushing = flushing.expect("no other one is under way");
        unflushed.end(&flushing);
        flushing.ranges
    }

    #[test]
    fn who_needs_what_another_flush_has_begun_waits_for_it() {
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
        assert!(unflushed.begin_commit().is_none(), "some of what is due is under way");
        [other, log].iter().for_each(|one| unflushed.end(one));
        assert!(unflushed.begin_commit().unwrap().ranges.is_empty());
    }
}
