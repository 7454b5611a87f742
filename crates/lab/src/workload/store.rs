//! The store of a cell (one engine in one round), and the contents that the driver expects in it.
use super::{
    keys::Keys,
    model::Model,
    values::{Form, Sizes, Values},
};
use crate::{
    cell::CellSpec,
    target::{Engine, Settings, StoreMedium, Target},
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

/// Expected contents of a store, and the encoding of its keys and values.
#[derive(Debug)]
pub struct Content {
    /// The mapping from the numbers of keys to their bytes.
    pub keys: Keys,
    /// The values that the driver can put.
    pub values: Values,
    /// Expected generation (number of changes) of each key. Numbers from `num` on are reserved for
    /// keys that are inserted later.
    pub model: Model,
    /// Number of keys from which fills and reads choose.
    pub num: u64,
    /// The keys that are inserted later. Their numbers follow those of the fill.
    pub inserts: Inserts,
    /// Whether the driver checks the results of reads.
    pub checked: bool,
    /// The numbers of the keys in key order. This order is computed when a scan needs it. Decimal
    /// keys do not need it, because their numbers are already in key order.
    order: Option<KeyOrder>,
}

#[derive(Debug)]
struct KeyOrder {
    /// The numbers of all keys, sorted by key.
    sorted: Vec<u32>,
    /// For each number, its position in `sorted`.
    rank: Vec<u32>,
}

impl Content {
    /// Creates empty contents for `num` keys, with room for `room` keys that are inserted later.
    pub fn new(keys: Keys, values: Values, num: u64, room: u64) -> Content {
        let exact = values.form() == Form::Fields; // the replaced field depends on it
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

    /// Creates empty contents with db_bench's keys: decimal keys, and values of `value_size` bytes.
    pub fn decimal(spec: &CellSpec, value_size: usize) -> Result<Content> {
        let keys = Keys::decimal(spec.key_size, spec.num)?;
        let values = Values::new(value_size, spec.compression_ratio, spec.seed, Form::Whole);
        Ok(Content::new(keys, values, spec.num, 0))
    }

    /// Creates empty contents with decimal keys, and values of several sizes.
    pub fn sized(spec: &CellSpec, sizes: Sizes) -> Result<Content> {
        let keys = Keys::decimal(spec.key_size, spec.num)?;
        Ok(Content::new(keys, Values::sized(sizes, spec.compression_ratio, spec.seed), spec.num, 0))
    }

    /// Computes the order of the keys, which scans need.
    pub fn sort(&mut self) -> Result<()> {
        if matches!(self.keys, Keys::Decimal(_)) || self.order.is_some() {
            return Ok(());
        }
        let len = u32::try_from(self.model.len()).context("scans of hashed keys: the maximum is 2^32 keys")?;
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
        self.order = Some(KeyOrder { sorted, rank });
        Ok(())
    }

    /// Returns the key at position `place` in key order, as its number.
    #[inline]
    pub fn at(&self, place: u64) -> u64 {
        self.order.as_ref().map_or(place, |order| u64::from(order.sorted[place as usize]))
    }

    /// Returns the position of key `number` in key order.
    #[inline]
    pub fn place(&self, number: u64) -> u64 {
        self.order.as_ref().map_or(number, |order| u64::from(order.rank[number as usize]))
    }

    /// Returns the total size in bytes of the keys and values that are present.
    pub fn live_bytes(&self) -> u64 {
        let value = |number| self.values.len_of(number, self.model.newest(number));
        self.model.live().map(|number| (self.keys.len_of(number) + value(number)) as u64).sum()
    }

    /// Returns the memory in bytes that the expected contents take.
    pub fn memory_bytes(&self) -> u64 {
        let order = self.order.as_ref().map_or(0, |order| size_of_val(order.sorted.as_slice()) * 2);
        self.model.memory_bytes() + self.values.memory_bytes() + order as u64
    }
}

/// The keys that are inserted after the load. As in YCSB, a thread may read a key only when the
/// store has acknowledged the inserts of this key and of all keys with lower numbers.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    /// The store has acknowledged the inserts of all numbers below this one.
    below: AtomicU64,
    /// Acknowledged numbers above the lowest number that is not acknowledged yet. No I/O happens
    /// under the lock.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    fn new(num: u64) -> Inserts {
        Inserts { next: AtomicU64::new(num), below: AtomicU64::new(num), ahead: Mutex::default() }
    }

    /// Returns the next unused number for an insert.
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that the store has acknowledged the insert of `number`.
    pub fn end(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        ahead.insert(number);
        let mut below = self.below.load(Ordering::Relaxed);
        while ahead.remove(&below) {
            below += 1;
        }
        self.below.store(below, Ordering::Release);
    }

    /// Returns the number below which all inserts are acknowledged.
    #[inline]
    pub fn below(&self) -> u64 {
        self.below.load(Ordering::Acquire)
    }
}

/// An engine's store in its own directory.
pub struct Store<'e> {
    engine: &'e dyn Engine,
    settings: Settings,
    checked: bool,
    dir: PathBuf,
    target: Option<Box<dyn Target>>,
    /// The expected contents of the store.
    pub content: Content,
}

impl<'e> Store<'e> {
    /// Returns the store in the subdirectory `store` of the cell's directory. The store is not open
    /// yet.
    pub fn at(engine: &'e dyn Engine, spec: &CellSpec) -> Result<Store<'e>> {
        let (dir, settings) = (spec.dir.join("store"), spec.settings.clone());
        let checked = spec.check_answers;
        let content = Content { checked, ..Content::decimal(spec, spec.value_size)? };
        Ok(Store { engine, settings, checked, dir, target: None, content })
    }

    /// Creates and opens a new store in the subdirectory `store` of the cell's directory. An
    /// existing store is replaced.
    pub fn create(engine: &'e dyn Engine, spec: &CellSpec) -> Result<Store<'e>> {
        let mut store = Store::at(engine, spec)?;
        store.recreate()?;
        Ok(store)
    }

    /// Replaces the store by an empty one, in which the driver will expect `content`.
    pub fn fresh(&mut self, content: Content) -> Result<()> {
        self.content = Content { checked: self.checked, ..content };
        self.recreate()
    }

    fn recreate(&mut self) -> Result<()> {
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

    /// Returns the open store.
    pub fn target(&self) -> &dyn Target {
        self.target.as_deref().expect("the store is open during a stage")
    }

    /// Returns the store's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns whether the store is in a file system. The sizes of its files can then be measured.
    pub fn is_in_file_system(&self) -> bool {
        self.engine.below() == StoreMedium::FileSystem
    }

    /// Sets the number of threads that work on the store from now on.
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
