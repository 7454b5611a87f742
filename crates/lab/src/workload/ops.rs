//! Single operations on a store. The driver performs each operation, checks its result against the
//! expected contents, and counts it.
use super::{model::Pending, store::Content};
use crate::{
    measure::{Kind, Worker},
    target::{Change, Target},
};
use anyhow::{Result, bail, ensure};
use std::hint::black_box;

/// Bytes per cache line.
const CACHE_LINE: usize = 64;
/// Maximum number of cache lines of a value that the driver prefetches. The processor itself
/// prefetches the rest of a long value.
const PREFETCHED_LINES: usize = 4;

/// The driver: performs the operations of one thread on a store. It reuses its buffers, so an
/// operation allocates no memory.
pub struct Driver<'a> {
    target: &'a dyn Target,
    content: &'a Content,
    sync: bool,
    /// Whether other threads change values during a scan. The scan then returns the values that
    /// were current when it started.
    overwritten: bool,
    key: Vec<u8>,
    from: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Driver<'a> {
    /// Creates a driver. If `sync`, each write is durable when its call returns.
    pub fn new(target: &'a dyn Target, content: &'a Content, sync: bool) -> Driver<'a> {
        let value = Vec::with_capacity(content.values.size());
        Driver {
            target,
            content,
            sync,
            overwritten: false,
            key: Vec::with_capacity(64),
            from: Vec::with_capacity(64),
            value,
        }
    }

    /// Sets whether other threads change values during a scan. If `overwritten`, an entry of a scan
    /// may have an older value than the newest one.
    pub fn with_concurrent_writers(self, overwritten: bool) -> Driver<'a> {
        Driver { overwritten, ..self }
    }

    /// Prefetches the driver's own data for puts of these keys. Without prefetching, the driver's
    /// accesses to random keys miss all processor caches and cost 0.2 µs each, between two
    /// operations of the store. If many accesses are prefetched together, each costs a tenth of
    /// this time.
    pub fn prefetch(&self, numbers: &[u64]) {
        let (model, values) = (&self.content.model, &self.content.values);
        let slots = numbers.iter().fold(0, |all, number| all ^ model.newest(*number));
        let mut texts = 0;
        for number in numbers {
            let text = values.text(*number, model.coming(*number));
            for at in (0..text.len().min(PREFETCHED_LINES * CACHE_LINE)).step_by(CACHE_LINE) {
                texts ^= text[at];
            }
        }
        black_box((slots, texts));
    }

    /// Puts the next value of the key.
    #[inline]
    pub fn put(&mut self, worker: &mut Worker<'_>, number: u64) -> Result<()> {
        let content = self.content;
        content.keys.write(number, &mut self.key);
        let pending = content.model.begin(number, true);
        let value = content.values.text(number, pending.generation);
        let changes = [Change::Put(&self.key, value)];
        worker.timed(Kind::Put, || self.target.write(&changes, self.sync))?;
        content.model.end(pending);
        worker.tally.written_bytes += (self.key.len() + value.len()) as u64;
        Ok(())
    }

    /// Deletes the key.
    #[inline]
    pub fn delete(&mut self, worker: &mut Worker<'_>, number: u64) -> Result<()> {
        self.content.keys.write(number, &mut self.key);
        let pending = self.content.model.begin(number, false);
        worker.timed(Kind::Delete, || self.target.write(&[Change::Delete(&self.key)], self.sync))?;
        self.content.model.end(pending);
        worker.tally.written_bytes += self.key.len() as u64;
        Ok(())
    }

    /// Reads the key and checks the result.
    #[inline]
    pub fn get(&mut self, worker: &mut Worker<'_>, number: u64) -> Result<()> {
        let content = self.content;
        content.keys.write(number, &mut self.key);
        let floor = content.checked.then(|| content.model.floor(number));
        let found = worker.timed(Kind::Get, || self.target.get(&self.key, &mut self.value))?;
        check(content, worker, (number, &self.key, floor), found.then_some(&self.value))
    }

    /// Reads several keys in one call and checks the results. The time of the call is recorded as
    /// that of one get.
    pub fn multi_get(&mut self, worker: &mut Worker<'_>, numbers: &[u64]) -> Result<()> {
        let content = self.content;
        let keys: Vec<Vec<u8>> = numbers
            .iter()
            .map(|number| {
                let mut key = Vec::new();
                content.keys.write(*number, &mut key);
                key
            })
            .collect();
        let floors: Vec<_> =
            numbers.iter().map(|number| content.checked.then(|| content.model.floor(*number))).collect();
        let found = worker.timed(Kind::Get, || self.target.multi_get(&keys))?;
        ensure!(found.len() == keys.len(), "{} results for {} keys", found.len(), keys.len());
        for (at, value) in found.iter().enumerate() {
            check(content, worker, (numbers[at], &keys[at], floors[at]), value.as_deref())?;
        }
        Ok(())
    }

    /// Reads a key that is never written. Its bytes are the key of `number` followed by a dot. The
    /// store must not find it.
    pub fn get_missing(&mut self, worker: &mut Worker<'_>, number: u64) -> Result<()> {
        self.content.keys.write(number, &mut self.key);
        self.key.push(b'.');
        let found = worker.timed(Kind::Get, || self.target.get(&self.key, &mut self.value))?;
        ensure!(!found, "key {}: the store returned a value of a key that was never written", self.key.escape_ascii());
        Ok(())
    }

    /// Reads the key, then writes it. In a store with merged fields (YCSB's updates that replace
    /// one of ten fields), the write replaces one field of the value. Otherwise it replaces the
    /// whole value.
    pub fn read_modify_write(&mut self, worker: &mut Worker<'_>, number: u64) -> Result<()> {
        let start = worker.now();
        self.merge(worker, number)?;
        worker.record_since(Kind::Rmw, start);
        Ok(())
    }

    /// Performs an update: reads the key, then writes it as a read-modify-write does. The times are
    /// recorded as those of one get and one put.
    pub fn merge(&mut self, worker: &mut Worker<'_>, number: u64) -> Result<()> {
        self.get(worker, number)?;
        let content = self.content;
        let pending = content.model.begin(number, true);
        let replaced = content.values.replaced(number, pending.generation);
        self.value.resize(content.values.size(), 0);
        self.value[replaced.clone()].copy_from_slice(&content.values.text(number, pending.generation)[replaced]);
        worker.timed(Kind::Put, || self.target.write(&[Change::Put(&self.key, &self.value)], self.sync))?;
        content.model.end(pending);
        worker.tally.written_bytes += (self.key.len() + self.value.len()) as u64;
        Ok(())
    }

    /// Puts or deletes the keys of `numbers` in one batch. `batch` is memory that is reused.
    pub fn batch(
        &mut self,
        worker: &mut Worker<'_>,
        put: bool,
        numbers: impl Iterator<Item = u64>,
        batch: &mut Batch,
    ) -> Result<()> {
        let content = self.content;
        batch.pending.clear();
        self.key.clear();
        for number in numbers {
            content.keys.append(number, &mut self.key);
            batch.pending.push((content.model.begin(number, put), self.key.len()));
        }
        let mut changes = Vec::with_capacity(batch.pending.len());
        let (mut start, mut bytes) = (0, 0);
        for (pending, end) in &batch.pending {
            let key = &self.key[start..*end];
            let value = content.values.text(pending.number, pending.generation);
            bytes += key.len() + if put { value.len() } else { 0 };
            changes.push(if put { Change::Put(key, value) } else { Change::Delete(key) });
            start = *end;
        }
        let kind = if put { Kind::Put } else { Kind::Delete };
        worker.timed(kind, || self.target.write(&changes, self.sync))?;
        batch.pending.iter().for_each(|(pending, _)| content.model.end(*pending));
        worker.tally.written_bytes += bytes as u64;
        Ok(())
    }

    /// Reads at most `limit` entries in key order and returns their number. The scan starts at the
    /// key of `from`. Without `from`, it starts at the first key, or at the last key if `reverse`.
    /// If other threads insert keys, only the keys that existed at the start must be in the result.
    pub fn scan(
        &mut self,
        worker: &mut Worker<'_>,
        from: Option<u64>,
        reverse: bool,
        limit: u64,
        each: Option<Kind>,
    ) -> Result<u64> {
        if let Some(number) = from {
            self.content.keys.write(number, &mut self.from);
        }
        let from_key = from.map(|_| self.from.as_slice());
        let mut walk = ExpectedScan::new(self.content, from, reverse, std::mem::take(&mut self.key));
        walk.overwritten = self.overwritten;
        let (mut last, mut seen, mut failure) = (worker.now(), 0, None);
        let visit = &mut |key: &[u8], value: &[u8]| {
            if let Some(kind) = each {
                last = worker.record_lap(kind, last);
            }
            if let Err(error) = walk.check_next(key, value) {
                failure = Some(error);
                return false;
            }
            seen += 1;
            worker.tally.found += 1;
            worker.tally.returned_bytes += (key.len() + value.len()) as u64;
            (each.is_none() || worker.did(1)) && seen < limit
        };
        let result = if limit == 0 { Ok(()) } else { self.target.scan(from_key, reverse, visit) };
        let ended = seen < limit;
        let outcome = result.and(failure.map_or(Ok(()), Err)).and_then(|()| if ended { walk.end() } else { Ok(()) });
        self.key = walk.key;
        outcome.map(|()| seen)
    }
}

/// Memory for the changes of a batch, which the next batch reuses.
#[derive(Debug, Default)]
pub struct Batch {
    /// Each change of the batch. The number is the end of the change's key in the buffer of all
    /// keys.
    pending: Vec<(Pending, usize)>,
}

/// Checks a scan while it runs. It walks over the expected keys in order; each entry that the scan
/// returns must be the next expected key that is present.
pub struct ExpectedScan<'a> {
    content: &'a Content,
    /// The positions in key order that remain: `next .. end`, from the last one down if `reverse`.
    next: u64,
    end: u64,
    reverse: bool,
    /// Number from which on the scan may miss keys, because other threads insert the keys with
    /// these numbers, possibly after the scan has started.
    sure_below: u64,
    /// Whether values may be older than the newest; see [`Driver::with_concurrent_writers`].
    overwritten: bool,
    key: Vec<u8>,
}

impl<'a> ExpectedScan<'a> {
    /// Starts at the key of `from`. Without `from`, starts at the first key, or at the last key if
    /// `reverse`. `key` is a buffer to reuse.
    pub fn new(content: &'a Content, from: Option<u64>, reverse: bool, key: Vec<u8>) -> ExpectedScan<'a> {
        let place = from.map(|number| content.place(number));
        let (next, end) = match (place, reverse) {
            (place, false) => (place.unwrap_or(0), content.model.len()),
            (place, true) => (0, place.map_or(content.model.len(), |place| place + 1)),
        };
        ExpectedScan { content, next, end, reverse, sure_below: content.inserts.below(), overwritten: false, key }
    }

    fn step(&mut self) -> Option<u64> {
        if self.next == self.end {
            return None;
        }
        let place = if self.reverse {
            self.end -= 1;
            self.end
        } else {
            self.next += 1;
            self.next - 1
        };
        Some(self.content.at(place))
    }

    /// Checks one entry that the scan returned. It must be the next expected entry.
    #[inline]
    pub fn check_next(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.content.checked {
            return Ok(());
        }
        while let Some(number) = self.step() {
            let model = &self.content.model;
            if model.present(number) == Some(false) {
                continue;
            }
            self.content.keys.write(number, &mut self.key);
            let floor = if self.overwritten { 0 } else { model.floor(number) };
            let newest = model.newest(number);
            if self.key == key {
                let right = self.content.values.check(number, (floor, newest), Some(value));
                ensure!(right, wrong_result(key, floor, newest, Some(value)));
                return Ok(());
            }
            ensure!(self.may_miss(number), wrong_result(&self.key, floor, newest, None));
        }
        bail!("a scan returned key {}, which is absent or out of order", key.escape_ascii())
    }

    fn may_miss(&self, number: u64) -> bool {
        number >= self.sure_below || self.content.model.present(number) != Some(true)
    }

    /// Checks that no expected entry remains, because the scan has ended.
    fn end(&mut self) -> Result<()> {
        while self.content.checked
            && let Some(number) = self.step()
        {
            if !self.may_miss(number) {
                self.content.keys.write(number, &mut self.key);
                let (floor, newest) = (self.content.model.floor(number), self.content.model.newest(number));
                bail!(wrong_result(&self.key, floor, newest, None));
            }
        }
        Ok(())
    }
}

/// Checks `answer`, the result of a read of key `number`, and counts it. `floor` is the oldest
/// generation of the value that the read may return; `None` if answers are not checked.
#[inline(always)] // part of every read that is measured
fn check(
    content: &Content,
    worker: &mut Worker<'_>,
    (number, key, floor): (u64, &[u8], Option<u32>),
    answer: Option<&[u8]>,
) -> Result<()> {
    if let Some(floor) = floor {
        let newest = content.model.newest(number);
        if !content.values.check(number, (floor, newest), answer) {
            bail!(wrong_result(key, floor, newest, answer));
        }
    }
    if let Some(value) = answer {
        worker.tally.found += 1;
        worker.tally.returned_bytes += (key.len() + value.len()) as u64;
    }
    Ok(())
}

#[cold]
fn wrong_result(key: &[u8], floor: u32, newest: u32, answer: Option<&[u8]>) -> String {
    let wanted = match (floor == newest, newest % 2 == 1) {
        (true, true) => format!("the value of generation {newest}"),
        (true, false) => "no value".into(),
        (false, _) => format!("one of the generations {floor} to {newest}"),
    };
    let got = answer.map_or("none".into(), |value| {
        format!("{} bytes that begin with {:?}", value.len(), value[..value.len().min(16)].escape_ascii().to_string())
    });
    format!("wrong result for key {}: expected {wanted}, the store returned {got}", key.escape_ascii())
}
