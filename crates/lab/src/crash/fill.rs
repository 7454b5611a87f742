//! Writes a history into a store and reports every batch that must survive a later power cut (a
//! promised batch). A batch is promised for one of three reasons: the batch was synced, the writer
//! waited for its durability, or the engine reports that the batch has become durable.
use super::{
    NegativeControl,
    readers::{HistoryReader, WriterProgress},
    script::{Batch, Script},
    size::Size,
};
use crate::target::{Engine, Target};
use std::{collections::VecDeque, ops::Range, path::Path, sync::atomic::Ordering::SeqCst, thread, time::Duration};

/// The writer makes a long pause after one of this many batches; `Batch::rest` marks these
/// batches.
const REST_EVERY: u32 = 16;

/// Number of threads that read a large history while it is written.
const READERS: u64 = 2;

/// A history to write, and the way to write it.
pub struct Fill<'a> {
    pub engine: &'a dyn Engine,
    pub dir: &'a Path,
    pub script: Script,
    /// Number of the first batch to write. The store already contains the earlier batches, and they
    /// must survive.
    pub from: u64,
    /// Minimum duration of the whole history. The writer pauses after each batch to reach it.
    pub min_duration: Duration,
    /// The intentional fault that the crash tests must find, if any.
    pub broken: Option<NegativeControl>,
}

/// The promised batches, which must survive a power cut.
struct Promises<'a> {
    report: &'a mut dyn FnMut(u64) -> anyhow::Result<()>,
    /// Number of the last batch that was reported as promised.
    reported: u64,
    /// The batches written after the batch `reported`. Each item is the number of a batch and the
    /// engine's sequence number of the batch's last write.
    waiting: VecDeque<(u64, u64)>,
}

/// Reason why the history was not written completely.
#[derive(Debug)]
pub enum FillError {
    /// The store rejects a write that it must accept, or returns wrong data. The text begins with
    /// one word in capitals, the kind of the violation.
    Broken(String),
    /// The promise could not be sent to its receiver. The error says nothing about the store.
    ReportFailed(anyhow::Error),
}

fn broken(word: &str) -> impl FnOnce(anyhow::Error) -> FillError + '_ {
    move |error| FillError::Broken(format!("{word}: {error:#}"))
}

impl Fill<'_> {
    /// Writes all batches of the history. `report` receives increasing batch numbers. All batches
    /// up to a reported number must survive from then on. If the store fails, it is not closed,
    /// because the receiver of the error ends this process.
    pub fn run(&self, report: &mut dyn FnMut(u64) -> anyhow::Result<()>) -> Result<(), FillError> {
        let mut promises = Promises { report, reported: self.from - 1, waiting: VecDeque::new() };
        (promises.report)(self.from - 1).map_err(FillError::ReportFailed)?;
        let mut next = self.from;
        while next <= self.script.batches {
            let store = self.engine.open(self.dir, &self.script.size.settings()).map_err(broken("OPEN"))?;
            let reopened = (next + 1..=self.script.batches).find(|number| self.script.batch(*number).reopen);
            let end = reopened.unwrap_or(self.script.batches + 1);
            if let Err(ended) = self.write_session(&*store, next..end, &mut promises) {
                std::mem::forget(store);
                return Err(ended);
            }
            promises.close(store, end - 1)?;
            next = end;
        }
        Ok(())
    }

    /// Writes batches into an open store. If the history is large, reader threads check the store
    /// meanwhile. If both the writer and a reader fail, the reader's error is returned.
    fn write_session(
        &self,
        store: &dyn Target,
        batches: Range<u64>,
        promises: &mut Promises<'_>,
    ) -> Result<(), FillError> {
        let writer = WriterProgress::at(batches.start - 1);
        let readers = if self.script.size == Size::Small { 0 } else { READERS };
        thread::scope(|scope| {
            let readers = (0..readers).map(|number| {
                let (writer, mut reader) = (&writer, HistoryReader::new(self.script, store, &writer, number));
                scope.spawn(move || {
                    let _done = StopReadersOnDrop(writer);
                    reader.run()
                })
            });
            let readers: Vec<_> = readers.collect();
            let mut wrote = Ok(());
            {
                let _done = StopReadersOnDrop(&writer);
                for number in batches {
                    wrote = self.write(store, number, promises);
                    if wrote.is_err() || writer.is_done.load(SeqCst) {
                        break;
                    }
                    writer.written.store(number, SeqCst);
                }
            }
            let ended =
                readers.into_iter().map(|reader| reader.join().unwrap_or(Err("PANICS: a reader panicked".into())));
            let read = ended.collect::<Vec<_>>().into_iter().collect::<Result<(), String>>();
            read.map_err(FillError::Broken).and(wrote)
        })
    }

    /// Writes one batch. Then reports the batches that have become promised since the last report.
    fn write(&self, store: &dyn Target, number: u64, promises: &mut Promises<'_>) -> Result<(), FillError> {
        let batch = self.script.batch(number);
        let Batch { sync, wait, rest, .. } = batch;
        let honest = self.broken != Some(NegativeControl::Unsynced);
        batch.write(store, sync && honest).map_err(broken("WRITE"))?;
        if sync {
            promises.keep(number)?;
        }
        promises.written(number, store);
        if wait && store.watermarks().is_some() {
            store.wait_durable().map_err(broken("WRITE"))?;
        }
        let pause = self.min_duration / u32::try_from(self.script.batches).unwrap_or(u32::MAX);
        thread::sleep(if rest { pause * REST_EVERY } else { pause / 4 });
        promises.look(store)
    }
}

/// Signals all threads of the store to end when it is dropped, also after an error or a panic.
struct StopReadersOnDrop<'a>(&'a WriterProgress);

impl Drop for StopReadersOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_done.store(true, SeqCst);
    }
}

impl Promises<'_> {
    fn written(&mut self, number: u64, store: &dyn Target) {
        self.waiting.extend(store.watermarks().map(|reach| (number, reach.written)));
    }

    /// Reports to the campaign that all batches up to `number` must survive any later power cut.
    fn keep(&mut self, number: u64) -> Result<(), FillError> {
        if number <= self.reported {
            return Ok(());
        }
        self.reported = number;
        (self.report)(number).map_err(FillError::ReportFailed)
    }

    /// Closes a store that contains the batches up to `last`. If the engine reports its durable
    /// watermark (the sequence number up to which every write is durable), then closing the store
    /// makes all batches durable, and they are reported as promised.
    fn close(&mut self, store: Box<dyn Target>, last: u64) -> Result<(), FillError> {
        let promises = store.watermarks().is_some();
        store.close().map_err(broken("CLOSE"))?;
        self.waiting.clear();
        if promises { self.keep(last) } else { Ok(()) }
    }

    /// Reads the engine's durable watermark, and reports the batches up to this watermark as
    /// promised.
    fn look(&mut self, store: &dyn Target) -> Result<(), FillError> {
        let Some(reach) = store.watermarks() else { return Ok(()) };
        let mut last = 0;
        while let Some(&(number, written)) = self.waiting.front()
            && written <= reach.durable
        {
            last = number;
            self.waiting.pop_front();
        }
        self.keep(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines;
    use std::{collections::BTreeSet, fs};

    /// Writes a history into a store of the preset `engine`, in at least `min_duration`. Returns
    /// the batch numbers that were reported as promised, and the history.
    fn promised(engine: &str, min_duration: Duration) -> (Vec<u64>, Script) {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = engines::engine(engine).unwrap();
        engine.shorten_timers();
        let closes = |script: &Script| (2..=script.batches).any(|number| script.batch(number).reopen);
        let mut scripts = (3..).map(|seed| Script { seed, batches: 400, size: Size::Small });
        let script = scripts.find(closes).expect("a script that reopens the store");
        let fill = Fill { engine: &*engine, dir: dir.path(), script, from: 1, min_duration, broken: None };
        let mut reported = Vec::new();
        fill.run(&mut |number| {
            reported.push(number);
            Ok(())
        })
        .unwrap();
        (reported, script)
    }

    #[test]
    fn batches_that_become_durable_by_themselves_are_promised_like_synced_ones() {
        // On a machine with slow syncs, fewer batches become durable in the same time. The test
        // therefore repeats with longer pauses between the batches.
        let mut alone = [2, 8, 32].map(Duration::from_secs).into_iter().map(|min_duration| {
            let (reported, script) = promised("terrace:leveldb+durability=background", min_duration);
            assert!(reported.is_sorted_by(|a, b| a < b), "{reported:?}");
            assert_eq!(reported.last(), Some(&script.batches), "the last is synced");
            let mut asked = (1..=script.batches).filter(|number| is_asked(&script, *number));
            assert!(
                asked.all(|number| reported.contains(&number)),
                "a batch that was synced, awaited or closed with was not promised: {reported:?}"
            );
            reported.iter().filter(|number| **number > 0 && !is_asked(&script, **number)).count()
        });
        assert!(alone.any(|alone| alone > 5), "too few batches became durable by themselves");
        let (reported, script) = promised("terrace:volatile", Duration::from_secs(2));
        let synced = (1..=script.batches).filter(|number| script.batch(*number).sync);
        assert_eq!(reported.len(), synced.count() + 1, "a store without promises reports nothing by itself");
    }

    /// Tests that value-log garbage collection (GC) runs while the writer writes a history. `make
    /// crash` tests the same engine on a device. Its power cuts can interrupt GC only if GC runs
    /// during the history.
    #[test]
    fn value_log_gc_runs_during_a_history() {
        let dir = tempfile::tempdir().unwrap();
        let name = "terrace:wisckey+value_log_gc=segments+value_log_gc_percent=1+durability=background";
        let mut engine = engines::engine(name).unwrap();
        let min_duration = engine.shorten_timers();
        let moved = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".vals");
        let mut seen = BTreeSet::new();
        let fill = Fill {
            engine: &*engine,
            dir: dir.path(),
            script: Script { seed: 3, batches: 400, size: Size::Small },
            from: 1,
            min_duration,
            broken: None,
        };
        fill.run(&mut |_| {
            let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
            seen.extend(names.filter(moved));
            Ok(())
        })
        .unwrap();
        assert!(!seen.is_empty(), "no value was moved");
    }

    fn is_asked(script: &Script, number: u64) -> bool {
        let batch = script.batch(number);
        batch.sync || batch.wait || number < script.batches && script.batch(number + 1).reopen
    }
}
