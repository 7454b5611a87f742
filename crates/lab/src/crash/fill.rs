//! Writes a history into a store, and tells of every batch that must survive from then on: because it was synced, because its
//! durability was awaited, or because the engine says that it has become durable by itself.
use super::{Control, script::Script, worker::settings};
use crate::target::{Engine, Target};
use anyhow::Result;
use std::{collections::VecDeque, path::Path, thread, time::Duration};

/// Batches after which one in so many rests; see `Batch::rest`.
const REST_EVERY: u32 = 16;

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
    tell: &'a mut dyn FnMut(u64) -> Result<()>,
    /// The last batch that was told.
    told: u64,
    /// Batches that were written since, each with the engine's own number of its last write.
    waiting: VecDeque<(u64, u64)>,
}

impl Fill<'_> {
    /// Writes all of it. `tell` hears the number of each batch up to which everything must survive from then on; they rise.
    pub fn run(&self, tell: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        tell(self.from - 1)?;
        let mut promises = Promises { tell, told: self.from - 1, waiting: VecDeque::new() };
        let pause = self.lasts / u32::try_from(self.script.batches)?;
        let mut store = self.engine.open(self.dir, &settings())?;
        for number in self.from..=self.script.batches {
            let batch = self.script.batch(number);
            if batch.reopen {
                promises.close(store, number - 1)?;
                store = self.engine.open(self.dir, &settings())?;
            }
            let honest = self.broken != Some(Control::Unsynced);
            batch.write(&*store, batch.sync && honest)?;
            if batch.sync {
                promises.keep(number)?;
            }
            promises.written(number, &*store);
            if batch.wait && store.reach().is_some() {
                store.wait_durable()?;
            }
            thread::sleep(if batch.rest { pause * REST_EVERY } else { pause / 4 });
            promises.look(&*store)?;
        }
        promises.close(store, self.script.batches)
    }
}

impl Promises<'_> {
    fn written(&mut self, number: u64, store: &dyn Target) {
        self.waiting.extend(store.reach().map(|reach| (number, reach.written)));
    }

    /// Everything up to batch `number` is promised.
    fn keep(&mut self, number: u64) -> Result<()> {
        if number <= self.told {
            return Ok(());
        }
        self.told = number;
        (self.tell)(number)
    }

    /// Closes a store that holds the batches up to `last`. One that tells how far it has got promises all of them with that.
    fn close(&mut self, store: Box<dyn Target>, last: u64) -> Result<()> {
        let promises = store.reach().is_some();
        store.close()?;
        self.waiting.clear();
        if promises { self.keep(last) } else { Ok(()) }
    }

    /// Asks the engine what has become durable.
    fn look(&mut self, store: &dyn Target) -> Result<()> {
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
        let mut scripts = (3..).map(|seed| Script { seed, batches: 400 });
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
        let name = "terrace:wisckey+collection=segments+garbage_percent=1+durability=background";
        let mut engine = engines::engine(name).unwrap();
        let lasts = engine.hurry();
        let moved = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".vals");
        let mut seen = BTreeSet::new();
        let fill = Fill {
            engine: &*engine,
            dir: dir.path(),
            script: Script { seed: 3, batches: 400 },
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
