//! A history of batches, and the oracle that judges a store after a power cut. A seed determines
//! the batches, and every engine can write them. After a power cut, the store's contents must
//! equal a prefix of the history that contains all promised batches.
use super::size::Size;
use crate::target::{Change, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use terrace_sim::Rng;

/// Key of the batch counter, which every batch increments. It sorts before all other keys.
const COUNT_KEY: &[u8] = b"\x00count";
/// Key of an entry that is written after recovery. No batch writes it. It sorts after all other
/// keys.
const AFTER_KEY: &[u8] = b"\xffafter";

/// A history: the batches that a seed determines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// The seed that determines the batches.
    pub seed: u64,
    /// Number of batches.
    pub batches: u64,
    /// Size of the batches.
    #[serde(default)]
    pub size: Size,
}

/// A value in compact form. Its bytes are computed from these fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Number of the batch that wrote the value. It determines the bytes.
    number: u64,
    bytes: usize,
}

/// The contents of the store after a number of batches, without the batch counter.
#[derive(Debug, Default)]
pub struct Model {
    count: u64,
    values: BTreeMap<Vec<u8>, Value>,
}

/// One batch of a history, and the way in which the writer writes it.
pub struct Batch {
    number: u64,
    /// Keys with their new values; `None` deletes the key.
    changes: Vec<(Vec<u8>, Option<Value>)>,
    /// Whether the batch is written with `sync`.
    pub sync: bool,
    /// Whether the store is closed and reopened before the batch.
    pub reopen: bool,
    /// Whether the writer waits until the batch is durable, if the engine supports that. A batch
    /// that is neither synced nor waited for may still become durable later.
    pub wait: bool,
    /// Whether the writer pauses after the batch, so that background work can run.
    pub rest: bool,
}

impl Script {
    /// Returns batch `number`; the first is 1. The last batch of the history is synced.
    pub fn batch(&self, number: u64) -> Batch {
        let mut rng = Rng::of(self.seed, number);
        let mut changes = Vec::new();
        for _ in 0..rng.below(self.size.changes_below()) {
            let key = self.size.key(rng.below(self.size.keys()));
            let bytes = if rng.chance(1, 10) { rng.below(9000) } else { rng.below(self.size.usual_bytes()) };
            changes.push((key, (!rng.chance(1, 5)).then_some(Value { number, bytes })));
        }
        let sync = rng.chance(1, 6) || number == self.batches;
        Batch {
            number,
            changes,
            sync,
            reopen: rng.chance(1, self.size.reopens_every()),
            wait: rng.chance(1, 40),
            rest: rng.chance(1, 16),
        }
    }

    /// Judges a store that was opened after a power cut and must contain the first `promised`
    /// batches. Returns the number of batches in the store, or the text of the violation. The text
    /// begins with one word in capitals, which names the kind of the violation.
    pub fn judge(&self, promised: u64, store: &dyn Target) -> Result<u64, String> {
        let forward = Scan::of(store, false)?;
        let applied = forward.count.ok_or("WRONG: the batch counter is invalid")?;
        if applied > self.batches {
            return Err(format!("WRONG: {applied} batches are present, {} were written", self.batches));
        }
        let mut model = Model::default();
        model.advance(self, applied);
        if let Some(what) = model.refutes(&forward) {
            return Err(format!("HOLE: the contents do not match {applied} batches: {what}"));
        }
        if let Some(what) = model.refutes(&Scan::of(store, true)?) {
            return Err(format!("WRONG: a reverse scan differs from a forward scan: {what}"));
        }
        if applied < promised {
            return Err(format!("LOST: {applied} batches are present, {promised} were promised"));
        }
        Ok(applied)
    }
}

impl Batch {
    /// Writes the batch to the store. If `sync`, the batch is durable on return.
    pub fn write(&self, store: &dyn Target, sync: bool) -> crate::target::Result<()> {
        let values: Vec<_> = self.changes.iter().map(|(_, value)| value.map(Value::to_bytes)).collect();
        let count = self.number.to_le_bytes();
        let changes = self.changes.iter().zip(&values).map(|((key, _), value)| match value {
            Some(value) => Change::Put(key, value),
            None => Change::Delete(key),
        });
        store.write(&[Change::Put(COUNT_KEY, &count)].into_iter().chain(changes).collect::<Vec<_>>(), sync)
    }

    /// Returns the new value of `key` if the batch changes the key. The inner value is `None` if
    /// the batch deletes it.
    pub fn value_of(&self, key: &[u8]) -> Option<Option<Value>> {
        self.changes.iter().rfind(|(changed, _)| changed == key).map(|(_, value)| *value)
    }
}

impl Value {
    /// Returns the bytes of the value.
    pub fn to_bytes(self) -> Vec<u8> {
        self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().into_iter().cycle().take(self.bytes).collect()
    }
}

impl Model {
    /// Advances the model to the contents after `count` batches.
    pub fn advance(&mut self, script: &Script, count: u64) {
        for (key, value) in (self.count + 1..=count).flat_map(|number| script.batch(number).changes) {
            match value {
                Some(value) => drop(self.values.insert(key, value)),
                None => drop(self.values.remove(&key)),
            }
        }
        self.count = self.count.max(count);
    }

    /// Returns the expected value of `key`, or `None` if the key must be absent.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.values.get(key).copied()
    }

    /// Returns a description of the first difference between a scan and this model, or `None` if
    /// they are equal.
    pub(super) fn refutes(&self, scan: &Scan) -> Option<String> {
        let mut wanted: Box<dyn Iterator<Item = _>> = Box::new(self.values.iter());
        if scan.is_reverse {
            wanted = Box::new(self.values.iter().rev());
        }
        let mut found = scan.pairs.iter();
        loop {
            match (wanted.next(), found.next()) {
                (None, None) => {
                    return (scan.count != Some(self.count)).then(|| format!("the batch counter is {:?}", scan.count));
                }
                (Some((key, value)), Some((there, bytes))) if key == there && value.to_bytes() == *bytes => {}
                (wanted, found) => {
                    let show =
                        |key: Option<&Vec<u8>>| key.map_or("the end".into(), |key| key.escape_ascii().to_string());
                    let (wanted, found) = (show(wanted.map(|it| it.0)), show(found.map(|it| &it.0)));
                    return Some(format!("the first difference: expected {wanted}, found {found}"));
                }
            }
        }
    }
}

/// All entries of a store. The entry that the oracle writes after recovery is left out.
pub(super) struct Scan {
    is_reverse: bool,
    /// Value of the batch counter, which is the number of batches in the store. `None` if the value
    /// is invalid.
    pub count: Option<u64>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Scan {
    /// Reads all entries of the store, in reverse order if `is_reverse`.
    ///
    /// # Errors
    /// The engine's error, after the word `READ` and a colon.
    pub fn of(store: &dyn Target, is_reverse: bool) -> Result<Scan, String> {
        let mut scan = Scan { is_reverse, count: Some(0), pairs: Vec::new() };
        let done = store.scan(None, is_reverse, &mut |key, value| {
            match key {
                COUNT_KEY => scan.count = value.try_into().ok().map(u64::from_le_bytes),
                AFTER_KEY => {}
                _ => scan.pairs.push((key.to_vec(), value.to_vec())),
            }
            true
        });
        done.map_err(|error| format!("READ: {error:#}"))?;
        Ok(scan)
    }
}

/// Checks that a store accepts a synced write after recovery.
pub fn write_after(store: &dyn Target) -> Result<(), String> {
    store.write(&[Change::Put(AFTER_KEY, b"the crash")], true).map_err(|error| format!("WRITE: refused: {error:#}"))
}

/// Checks that the entry which [`write_after`] wrote is still present after the store was
/// reopened.
pub fn check_after(store: &dyn Target) -> Result<(), String> {
    match store.get(AFTER_KEY, &mut Vec::new()) {
        Ok(true) => Ok(()),
        Ok(false) => Err("WRITE: a synced write after recovery is lost".into()),
        Err(error) => Err(format!("READ: {error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engines, target::Settings};

    /// Returns a new store that contains the batches of `script` whose numbers are in `batches`.
    fn store(dir: &std::path::Path, script: Script, batches: impl Iterator<Item = u64>) -> Box<dyn Target> {
        let store = engines::engine("terrace").unwrap().open(dir, &Settings::default()).unwrap();
        batches.for_each(|number| script.batch(number).write(&*store, false).unwrap());
        store
    }

    #[test]
    fn a_prefix_is_accepted_and_every_violation_is_named() {
        let script = Script { seed: 5, batches: 300, size: Size::Small };
        let judge = |batches: &mut dyn Iterator<Item = u64>, promised| {
            let dir = tempfile::tempdir().unwrap();
            script.judge(promised, &*store(dir.path(), script, batches))
        };
        assert_eq!(judge(&mut std::iter::empty(), 0), Ok(0));
        assert_eq!(judge(&mut (1..=200), 200), Ok(200));
        assert!(judge(&mut (1..=200), 201).unwrap_err().starts_with("LOST"));
        // The oracle cannot detect that a batch is missing if later batches wrote all of its keys
        // again.
        let holes = (100..150).filter(|hole| judge(&mut (1..=160).filter(|n| n != hole), 0).is_err()).count();
        assert!(holes > 15, "only {holes} of 50 holes are seen");
        let other = Script { seed: 6, ..script };
        let dir = tempfile::tempdir().unwrap();
        assert!(script.judge(0, &*store(dir.path(), other, 1..=50)).unwrap_err().starts_with("HOLE"));
    }

    #[test]
    fn a_store_that_rejects_writes_after_recovery_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script { seed: 1, batches: 10, size: Size::Small };
        let store = store(dir.path(), script, 1..=10);
        assert!(check_after(&*store).unwrap_err().starts_with("WRITE"));
        write_after(&*store).unwrap();
        check_after(&*store).unwrap();
        assert_eq!(script.judge(10, &*store), Ok(10), "writes after recovery are not part of the history");
    }
}
