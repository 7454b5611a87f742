//! The store of a cell and what it must hold.
use super::{
    keys::Keys,
    model::Model,
    values::{Form, Sizes, Values},
};
use crate::{
    cell::CellSpec,
    target::{Below, Engine, Settings, Target},
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// What a store must hold, and how its keys and values are made.
#[derive(Debug)]
pub struct Content {
    /// Its keys.
    pub keys: Keys,
    /// Its values.
    pub values: Values,
    /// What each key must hold. Numbers from `num` on are room for inserts.
    pub model: Model,
    /// Keys that fills write and reads choose from.
    pub num: u64,
    /// Inserts behind them.
    pub inserts: Inserts,
    /// Whether answers are held against all this.
    pub checked: bool,
    /// Numbers in the order of their keys; made when a scan needs it, never for decimal keys, which are in order.
    order: Option<Order>,
}

#[derive(Debug)]
struct Order {
    /// Numbers in the order of their keys.
    sorted: Vec<u32>,
    /// Where each number stands in it.
    rank: Vec<u32>,
}

impl Content {
    /// Nothing yet; `values` will be put on `num` keys.
    pub fn new(keys: Keys, values: Values, num: u64, room: u64) -> Content {
        let exact = values.form() == Form::Fields; // whose fields are replaced in turn
        Content {
            keys,
            values,
            model: Model::new(num + room, exact),
            num,
            inserts: Inserts::new(num),
            checked: true,
            order: None,
        }
    }

    /// db_bench's content as `spec` wants it, with values of `value_size` bytes.
    pub fn decimal(spec: &CellSpec, value_size: usize) -> Result<Content> {
        let keys = Keys::decimal(spec.key_size, spec.num)?;
        let values = Values::new(value_size, spec.compression_ratio, spec.seed, Form::Whole);
        Ok(Content::new(keys, values, spec.num, 0))
    }

    /// The same keys, with values of several sizes.
    pub fn sized(spec: &CellSpec, sizes: Sizes) -> Result<Content> {
        let keys = Keys::decimal(spec.key_size, spec.num)?;
        Ok(Content::new(keys, Values::sized(sizes, spec.compression_ratio, spec.seed), spec.num, 0))
    }

    /// Makes what scans need to know.
    pub fn sort(&mut self) -> Result<()> {
        if matches!(self.keys, Keys::Decimal(_)) || self.order.is_some() {
            return Ok(());
        }
        let len = u32::try_from(self.model.len()).context("scans of hashed keys: 2^32 keys are the most")?;
        let mut texts: Vec<(Vec<u8>, u32)> = (0..len)
            .map(|number| {
                let mut key = Vec::new();
                self.keys.write(u64::from(number), &mut key);
                (key, number)
            })
            .collect();
        texts.sort_unstable();
        let sorted: Vec<u32> = texts.into_iter().map(|(_, number)| number).collect();
        let mut rank = vec![0; sorted.len()];
        sorted.iter().zip(0..).for_each(|(&number, place)| rank[number as usize] = place);
        self.order = Some(Order { sorted, rank });
        Ok(())
    }

    /// The number of the key that stands at `place` among all keys in order.
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
        self.order.as_ref().map_or(place, |order| u64::from(order.sorted[place as usize]))
    }

    /// Where the key of `number` stands among all keys in order.
    #[inline]
    pub fn place(&self, number: u64) -> u64 {
        self.order.as_ref().map_or(number, |order| u64::from(order.rank[number as usize]))
    }

    /// Bytes of the keys and values that are there.
    pub fn live_bytes(&self) -> u64 {
        let value = |number| self.values.len_of(number, self.model.newest(number));
        self.model.live().map(|number| (self.keys.len_of(number) + value(number)) as u64).sum()
    }

    /// Bytes of memory that all this takes.
    pub fn memory_bytes(&self) -> u64 {
        let order = self.order.as_ref().map_or(0, |order| size_of_val(order.sorted.as_slice()) * 2);
        self.model.memory_bytes() + self.values.memory_bytes() + order as u64
    }
}

/// YCSB's acknowledged counter: which numbers behind the loaded ones have been inserted without a gap.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    /// Every number below has been acknowledged.
    below: AtomicU64,
    /// Acknowledged ones behind a gap. No I/O under the lock.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    fn new(num: u64) -> Inserts {
        Inserts { next: AtomicU64::new(num), below: AtomicU64::new(num), ahead: Mutex::default() }
    }

    /// A number that nobody has.
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// `number` is in the store.
    pub fn end(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        ahead.insert(number);
        let mut below = self.below.load(Ordering::Relaxed);
        while ahead.remove(&below) {
            below += 1;
        }
        self.below.store(below, Ordering::Release);
    }

    /// Every number below it is in the store.
    #[inline]
    pub fn below(&self) -> u64 {
        self.below.load(Ordering::Acquire)
    }
}

/// An engine's store in a directory of its own.
pub struct Store<'e> {
    engine: &'e dyn Engine,
    settings: Settings,
    checked: bool,
    dir: PathBuf,
    target: Option<Box<dyn Target>>,
    /// What it must hold.
    pub content: Content,
}

impl<'e> Store<'e> {
    /// The store in directory `store` of the cell's directory, closed as yet.
    pub fn at(engine: &'e dyn Engine, spec: &CellSpec) -> Result<Store<'e>> {
        let (dir, settings) = (spec.dir.join("store"), spec.settings.clone());
        let checked = spec.check_answers;
        let content = Content { checked, ..Content::decimal(spec, spec.value_size)? };
        Ok(Store { engine, settings, checked, dir, target: None, content })
    }

    /// A new and open store there, in place of what is there.
    pub fn create(engine: &'e dyn Engine, spec: &CellSpec) -> Result<Store<'e>> {
        let mut store = Store::at(engine, spec)?;
        store.begin_anew()?;
        Ok(store)
    }

    /// Replaces the store by an empty one that is to hold `content`.
    pub fn fresh(&mut self, content: Content) -> Result<()> {
        self.content = Content { checked: self.checked, ..content };
        self.begin_anew()
    }

    fn begin_anew(&mut self) -> Result<()> {
        self.close()?;
        self.engine.clear(&self.dir, &self.settings)?;
        self.open()
    }

    /// Opens the closed store.
    pub fn open(&mut self) -> Result<()> {
        ensure!(self.target.is_none(), "the store is open");
        self.target = Some(self.engine.open(&self.dir, &self.settings).context("open the store")?);
        Ok(())
    }

    /// Closes the store, if it is open.
    pub fn close(&mut self) -> Result<()> {
        self.target.take().map_or(Ok(()), |target| target.close().context("close the store"))
    }

    /// The open store.
    pub fn target(&self) -> &dyn Target {
        self.target.as_deref().expect("a store is closed only between two stages and while it is reopened")
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether it is a directory's, whose files anybody can count.
    pub fn is_in_file_system(&self) -> bool {
        self.engine.below() == Below::FileSystem
    }

    /// Takes note that a single thread works on it from now on, or several.
    pub fn set_threads(&mut self, threads: usize) {
        self.content.model.set_solo(threads == 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_count_only_without_a_gap() {
        let inserts = Inserts::new(10);
        assert_eq!([inserts.begin(), inserts.begin(), inserts.begin()], [10, 11, 12]);
        inserts.end(11);
        inserts.end(12);
        assert_eq!(inserts.below(), 10);
        inserts.end(10);
        assert_eq!(inserts.below(), 13);
    }

    #[test]
    fn hashed_keys_are_put_in_order() {
        let values = Values::new(10, 0.5, 1, Form::Whole);
        let mut content = Content::new(Keys::User, values, 90, 10);
        content.sort().unwrap();
        let keys: Vec<Vec<u8>> = (0..100)
            .map(|place| {
                let (number, mut key) = (content.at(place), Vec::new());
                assert_eq!(content.place(number), place);
                content.keys.write(number, &mut key);
                key
            })
            .collect();
        assert!(keys.is_sorted());
    }
}
