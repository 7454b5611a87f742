//! Writes a history into a store, and tells of every batch that must survive from then on: because it was synced, because its
//! durability was awaited, or because the engine says that it has become durable by itself.
use super::{
    Control,
    readers::{Reader, Writer},
    script::{Batch, Script},
    size::Size,
};
use crate::target::{Engine, Target};
use std::{collections::VecDeque, ops::Range, path::Path, sync::atomic::Ordering::SeqCst, thread, time::Duration};

/// Batches after which one in so many rests; see `Batch::rest`.
const REST_EVERY: u32 = 16;

/// Threads that read meanwhile.
const READERS: u64 = 2;

/// What is written, and how.
pub struct Fill<'a> {
    pub engine: &'a dyn Engine,
    pub dir: &'a Path,
    pub script: Script,
    /// The first batch; those before it are there and promised.
    pub from: u64,
    /// How long the whole script lasts at least.
    pub lasts: Duration,
    /// What is broken on purpose.
    pub broken: Option<Control>,
}

/// What has been promised.
struct Promises<'a> {
    tell: &'a mut dyn FnMut(u64) -> anyhow::Result<()>,
    /// The last batch that was told.
    told: u64,
    /// Batches that were written since, each with the engine's own number of its last write.
    waiting: VecDeque<(u64, u64)>,
}

/// Why a history is not over.
#[derive(Debug)]
pub enum Ended {
    /// The store refuses what it must take, or shows what it does not have; the text begins with one word in capitals.
    Broken(String),
    /// Nobody could be told of what is promised: that says nothing about the store.
    Untold(anyhow::Error),
}

fn broken(word: &str) -> impl FnOnce(anyhow::Error) -> Ended + '_ {
    move |error| Ended::Broken(format!("{word}: {error:#}"))
}

impl Fill<'_> {
    /// Writes all of it. `tell` hears the number of each batch up to which everything must survive from then on; they rise. A store that
    /// is broken is left open: whoever hears of it ends this process.
    pub fn run(&self, tell: &mut dyn FnMut(u64) -> anyhow::Result<()>) -> Result<(), Ended> {
        let mut promises = Promises { tell, told: self.from - 1, waiting: VecDeque::new() };
        (promises.tell)(self.from - 1).map_err(Ended::Untold)?;
        let mut next = self.from;
        while next <= self.script.batches {
            let store = self.engine.open(self.dir, &self.script.size.settings()).map_err(broken("OPEN"))?;
            let reopened = (next + 1..=self.script.batches).find(|number| self.script.batch(*number).reopen);
            let end = reopened.unwrap_or(self.script.batches + 1);
            if let Err(ended) = self.sitting(&*store, next..end, &mut promises) {
                std::mem::forget(store);
                return Err(ended);
            }
            promises.close(store, end - 1)?;
            next = end;
        }
        Ok(())
    }

    /// Writes some batches into a store that is open, while others read, if the history is one for readers. What these found counts for
    /// more than what the writer did: a store that fell over tells both.
    fn sitting(&self, store: &dyn Target, batches: Range<u64>, promises: &mut Promises<'_>) -> Result<(), Ended> {
        let writer = Writer::at(batches.start - 1);
        let readers = if self.script.size == Size::Small { 0 } else { READERS };
        thread::scope(|scope| {
            let readers = (0..readers).map(|number| {
                let (writer, mut reader) = (&writer, Reader::new(self.script, store, &writer, number));
                scope.spawn(move || {
                    let _done = Done(writer);
                    reader.run()
                })
            });
            let readers: Vec<_> = readers.collect();
            let mut wrote = Ok(());
            {
                let _done = Done(&writer);
                for number in batches {
                    wrote = self.write(store, number, promises);
                    if wrote.is_err() || writer.is_done.load(SeqCst) {
                        break;
                    }
                    writer.written.store(number, SeqCst);
                }
            }
            let ended = readers.into_iter().map(|reader| reader.join().unwrap_or(Err("PANICS: a reader does".into())));
            let read = ended.collect::<Vec<_>>().into_iter().collect::<Result<(), String>>();
            read.map_err(Ended::Broken).and(wrote)
        })
    }

    /// Writes one batch, and looks what is promised since.
    fn write(&self, store: &dyn Target, number: u64, promises: &mut Promises<'_>) -> Result<(), Ended> {
        let batch = self.script.batch(number);
        let Batch { sync, wait, rest, .. } = batch;
        let honest = self.broken != Some(Control::Unsynced);
        batch.write(store, sync && honest).map_err(broken("WRITE"))?;
        if sync {
            promises.keep(number)?;
        }
        promises.written(number, store);
        if wait && store.reach().is_some() {
            store.wait_durable().map_err(broken("WRITE"))?;
        }
        let pause = self.lasts / u32::try_from(self.script.batches).unwrap_or(u32::MAX);
        thread::sleep(if rest { pause * REST_EVERY } else { pause / 4 });
        promises.look(store)
    }
}

/// When it goes, however that comes, all who share the store are told to end.
struct Done<'a>(&'a Writer);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.is_done.store(true, SeqCst);
    }
}

impl Promises<'_> {
    fn written(&mut self, number: u64, store: &dyn Target) {
        self.waiting.extend(store.reach().map(|reach| (number, reach.written)));
    }

    /// Everything up to batch `number` is promised.
    fn keep(&mut self, number: u64) -> Result<(), Ended> {
        if number <= self.told {
            return Ok(());
        }
        self.told = number;
        (self.tell)(number).map_err(Ended::Untold)
    }

    /// Closes a store that holds the batches up to `last`. One that tells how far it has got promises all of them with that.
    fn close(&mut self, store: Box<dyn Target>, last: u64) -> Result<(), Ended> {
        let promises = store.reach().is_some();
        store.close().map_err(broken("CLOSE"))?;
        self.waiting.clear();
        if promises { self.keep(last) } else { Ok(()) }
    }

    /// Asks the engine what has become durable.
    fn look(&mut self, store: &dyn Target) -> Result<(), Ended> {
        let Some(reach) = store.reach() else { return Ok(()) };
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

    /// Batches that were promised, of a preset's store, and the script, which lasts so long.
    fn promised(engine: &str, lasts: Duration) -> (Vec<u64>, Script) {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = engines::engine(engine).unwrap();
        engine.hurry();
        let closes = |script: &Script| (2..=script.batches).any(|number| script.batch(number).reopen);
        let mut scripts = (3..).map(|seed| Script { seed, batches: 400, size: Size::Small });
        let script = scripts.find(closes).expect("one is closed in the midst");
        let fill = Fill { engine: &*engine, dir: dir.path(), script, from: 1, lasts, broken: None };
        let mut told = Vec::new();
        fill.run(&mut |number| {
            told.push(number);
            Ok(())
        })
        .unwrap();
        (told, script)
    }

    #[test]
    fn what_becomes_durable_by_itself_is_promised_as_what_is_synced() {
        // A machine whose syncs are slow needs longer rests between the batches.
        let mut alone = [2, 8, 32].map(Duration::from_secs).into_iter().map(|lasts| {
            let (told, script) = promised("terrace:leveldb+durability=background", lasts);
            assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
            assert_eq!(told.last(), Some(&script.batches), "the last is synced");
            let mut asked = (1..=script.batches).filter(|number| is_asked(&script, *number));
            assert!(
                asked.all(|number| told.contains(&number)),
                "a batch that was synced, awaited or closed with is not: {told:?}"
            );
            told.iter().filter(|number| **number > 0 && !is_asked(&script, **number)).count()
        });
        assert!(alone.any(|alone| alone > 5), "too few batches became durable by themselves");
        let (told, script) = promised("terrace:volatile", Duration::from_secs(2));
        let synced = (1..=script.batches).filter(|number| script.batch(*number).sync);
        assert_eq!(told.len(), synced.count() + 1, "a store that promises nothing tells nothing by itself");
    }

    /// So that power cuts on a device hit a collector of values at work (`make crash` has this engine).
    #[test]
    fn values_in_the_log_are_collected_in_the_midst() {
        let dir = tempfile::tempdir().unwrap();
        let name = "terrace:wisckey+value_log_gc=segments+value_log_gc_percent=1+durability=background";
        let mut engine = engines::engine(name).unwrap();
        let lasts = engine.hurry();
        let moved = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".vals");
        let mut seen = BTreeSet::new();
        let fill = Fill {
            engine: &*engine,
            dir: dir.path(),
            script: Script { seed: 3, batches: 400, size: Size::Small },
            from: 1,
            lasts,
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
