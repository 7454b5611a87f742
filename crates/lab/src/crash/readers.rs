//! Threads that read a store while a history (the batches of a crash test) is written to it. They
//! compute the expected results from the history.
use super::script::{Model, Scan, Script};
use crate::target::Target;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::Duration,
};
use terrace_sim::Rng;

/// Pause of a reader between two point lookups.
const PAUSE: Duration = Duration::from_millis(2);
/// Number of point lookups between two scans.
const GETS: usize = 200;
/// Number of scans between two full compactions.
const SCANS: u64 = 10;

/// Progress of the writer. From it the reader threads determine which results are correct.
#[derive(Debug)]
pub struct WriterProgress {
    /// Number of the last batch whose write has returned. The next batch may be in the store, too.
    pub written: AtomicU64,
    /// Whether the writer has finished.
    pub is_done: AtomicBool,
}

impl WriterProgress {
    /// Creates the progress of a writer that has written `written` batches.
    pub fn at(written: u64) -> WriterProgress {
        WriterProgress { written: AtomicU64::new(written), is_done: AtomicBool::new(false) }
    }
}

/// A thread that reads the store and checks the results while the writer writes.
pub struct HistoryReader<'a> {
    script: Script,
    store: &'a dyn Target,
    writer: &'a WriterProgress,
    /// Expected contents of the store after those batches that are certainly in it.
    model: Model,
    rng: Rng,
    compacts: bool,
}

impl<'a> HistoryReader<'a> {
    /// Creates reader `number` of `store`. The reader draws its keys in another order each time the
    /// store is reopened. Reader 0 also compacts the store.
    pub fn new(script: Script, store: &'a dyn Target, writer: &'a WriterProgress, number: u64) -> HistoryReader<'a> {
        let rng = Rng::of(!script.seed, writer.written.load(SeqCst) * 2 + number);
        HistoryReader { script, store, writer, model: Model::default(), rng, compacts: number == 0 }
    }

    /// Reads until the writer has finished. An error text begins with one word in capitals, the
    /// kind of the violation.
    pub fn run(&mut self) -> Result<(), String> {
        for scans in 1.. {
            self.scan()?;
            for _ in 0..GETS {
                if self.writer.is_done.load(SeqCst) {
                    return Ok(());
                }
                self.get()?;
                thread::sleep(PAUSE);
            }
            if self.compacts && scans % SCANS == 0 {
                self.store.compact().map_err(|error| format!("COMPACT: {error:#}"))?;
            }
        }
        Ok(())
    }

    /// Checks one point lookup while the writer writes. The result must be the key's value after
    /// some number of batches. This number is at least the number of batches written before the
    /// lookup. It is at most the number of batches that may be in the store after the lookup.
    fn get(&mut self) -> Result<(), String> {
        let key = self.script.size.key(self.rng.below(self.script.size.keys()));
        let before = self.writer.written.load(SeqCst);
        let mut bytes = Vec::new();
        let is_there = self.store.get(&key, &mut bytes).map_err(|error| format!("READ: {error:#}"))?;
        let after = (self.writer.written.load(SeqCst) + 1).min(self.script.batches);
        self.model.advance(&self.script, before);
        let since = (before + 1..=after).filter_map(|number| self.script.batch(number).value_of(&key));
        let found = is_there.then_some(bytes);
        let mut possible = std::iter::once(self.model.get(&key)).chain(since);
        match possible.any(|value| value.map(|value| value.to_bytes()) == found) {
            true => Ok(()),
            false => Err(format!(
                "WRONG: the value of {} is none of those after {before} to {after} batches: {:?}",
                key.escape_ascii(),
                found.map(|bytes| bytes.len())
            )),
        }
    }

    /// Checks one scan while the writer writes. All entries of the scan must be the contents after
    /// the same number of batches.
    fn scan(&mut self) -> Result<(), String> {
        let before = self.writer.written.load(SeqCst);
        let scan = Scan::of(self.store, false)?;
        let after = (self.writer.written.load(SeqCst) + 1).min(self.script.batches);
        let number = scan.count.filter(|number| (before..=after).contains(number));
        let number = number
            .ok_or_else(|| format!("WRONG: a scan found {:?} batches instead of {before} to {after}", scan.count))?;
        self.model.advance(&self.script, number);
        match self.model.refutes(&scan) {
            None => Ok(()),
            Some(what) => Err(format!("WRONG: a scan does not match the contents after {number} batches: {what}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{crash::size::Size, engines, target::Change};

    /// A faulty store that returns old values for some keys, in point lookups or in scans.
    struct Stale<'a> {
        store: &'a dyn Target,
        before: &'a dyn Target,
        in_scans: bool,
    }

    impl Target for Stale<'_> {
        fn write(&self, changes: &[Change<'_>], sync: bool) -> crate::target::Result<()> {
            self.store.write(changes, sync)
        }
        fn get(&self, key: &[u8], value: &mut Vec<u8>) -> crate::target::Result<bool> {
            let from = if !self.in_scans && key.ends_with(b"7") { self.before } else { self.store };
            from.get(key, value)
        }
        fn scan(
            &self,
            from: Option<&[u8]>,
            reverse: bool,
            visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        ) -> crate::target::Result<()> {
            self.store.scan(from, reverse, &mut |key, value| {
                let mut stale = Vec::new();
                match self.in_scans && key.ends_with(b"7") {
                    false => visit(key, value),
                    true => !self.before.get(key, &mut stale).expect("read") || visit(key, &stale),
                }
            })
        }
        fn compact(&self) -> crate::target::Result<()> {
            self.store.compact()
        }
    }

    #[test]
    fn readers_accept_a_correct_store_and_detect_a_stale_one() {
        let script = Script { seed: 9, batches: 400, size: Size::Small };
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let engine = engines::engine("terrace").unwrap();
        let [store, before] = dirs.each_ref().map(|dir| engine.open(dir.path(), &script.size.settings()).unwrap());
        for number in 1..=350 {
            script.batch(number).write(&*store, false).unwrap();
            if number <= 100 {
                script.batch(number).write(&*before, false).unwrap();
            }
        }
        let read = |store: &dyn Target, written| {
            let writer = WriterProgress::at(written);
            let mut reader = HistoryReader::new(script, store, &writer, 0);
            let gets = (0..500).try_for_each(|_| reader.get());
            (gets, reader.scan())
        };
        // A batch may be in the store before its write returns, so a reader accepts one batch more
        // than `written`. It does not accept two.
        for written in [350, 349] {
            assert_eq!(read(&*store, written), (Ok(()), Ok(())), "{written} written");
        }
        let (_, scanned) = read(&*store, 348);
        assert!(scanned.unwrap_err().starts_with("WRONG: a scan found Some(350) batches"));
        let (gets, scanned) = read(&Stale { store: &*store, before: &*before, in_scans: false }, 350);
        assert!(gets.unwrap_err().contains("7 is none of those") && scanned == Ok(()));
        let (gets, scanned) = read(&Stale { store: &*store, before: &*before, in_scans: true }, 350);
        assert!(
            gets == Ok(())
                && scanned.unwrap_err().starts_with("WRONG: a scan does not match the contents after 350 batches")
        );
    }
}
