//! A seeded history that any engine can be put through, and the oracle that judges what a power cut left of it: the
//! contents must equal some prefix of the history, at least as long as what was promised.
use crate::target::{Change, Target};
use std::collections::BTreeMap;
use terrace_sim::Rng;

/// Holds the number of batches applied; every batch raises it.
const COUNT_KEY: &[u8] = b"\x00count";
/// Written after recovery; no batch writes it.
const AFTER_KEY: &[u8] = b"\xffafter";
const KEYS: usize = 120;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Batches that are a function of a seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Script {
    /// What it is a function of.
    pub seed: u64,
    /// How many there are.
    pub batches: u64,
}

/// One of them.
pub struct Batch {
    /// Keys with their new values; `None` removes.
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Whether it is written with `sync`.
    pub sync: bool,
    /// Whether the store is closed and opened again before it.
    pub reopen: bool,
    /// Whether its durability is awaited, where the engine can; what is not synced may be durable all the same, later.
    pub wait: bool,
    /// Whether nothing is written for a while after it, so that what happens by itself happens.
    pub rest: bool,
}

impl Script {
    /// Batch `number`, counted from 1. The last one is synced.
    pub fn batch(&self, number: u64) -> Batch {
        let mut rng = Rng::of(self.seed, number);
        let mut changes = vec![(COUNT_KEY.to_vec(), Some(number.to_le_bytes().to_vec()))];
        for _ in 0..rng.below(4) {
            let key = format!("key{:03}", rng.below(KEYS)).into_bytes();
            let bytes = if rng.chance(1, 10) { rng.below(9000) } else { rng.below(60) };
            let value = || (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes().into_iter().cycle().take(bytes);
            changes.push((key, (!rng.chance(1, 5)).then(|| value().collect())));
        }
        let sync = rng.chance(1, 6) || number == self.batches;
        Batch { changes, sync, reopen: rng.chance(1, 150), wait: rng.chance(1, 40), rest: rng.chance(1, 16) }
    }

    /// The store after the first `count` batches.
    fn state(&self, count: u64) -> Model {
        let mut model = Model::new();
        for (key, value) in (1..=count).flat_map(|number| self.batch(number).changes) {
            match value {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
        model
    }

    /// Judges the store that was opened after a power cut, when `promised` batches must have survived. The number that did, or
    /// what is wrong, beginning with one word in capitals.
    pub fn judge(&self, promised: u64, store: &dyn Target) -> Result<u64, String> {
        let mut found = contents(store)?;
        found.remove(AFTER_KEY);
        let count = found.get(COUNT_KEY).map_or(Some(0), |bytes| Some(u64::from_le_bytes(bytes[..].try_into().ok()?)));
        let applied = count.ok_or("WRONG: the count of batches is none")?;
        if applied > self.batches {
            return Err(format!("WRONG: {applied} batches are there, {} were written", self.batches));
        }
        let wanted = self.state(applied);
        if found != wanted {
            let lost = wanted.iter().find(|(key, value)| found.get(*key) != Some(value)).map(|(key, _)| key);
            let extra = found.keys().find(|key| !wanted.contains_key(*key));
            let show = |key: Option<&Vec<u8>>| key.map_or("none".into(), |key| key.escape_ascii().to_string());
            return Err(format!(
                "HOLE: the contents are not those after {applied} batches: first missing or wrong key {}, first extra key {}",
                show(lost),
                show(extra)
            ));
        }
        if applied < promised {
            return Err(format!("LOST: {applied} batches are there, {promised} were promised"));
        }
        Ok(applied)
    }
}

impl Batch {
    /// Writes it; durable at return if `sync`.
    pub fn write(&self, store: &dyn Target, sync: bool) -> crate::target::Result<()> {
        let changes = self.changes.iter().map(|(key, value)| match value {
            Some(value) => Change::Put(key, value),
            None => Change::Delete(key),
        });
        store.write(&changes.collect::<Vec<_>>(), sync)
    }
}

/// A store that was recovered takes a synced write.
pub fn write_after(store: &dyn Target) -> Result<(), String> {
    store.write(&[Change::Put(AFTER_KEY, b"the crash")], true).map_err(|error| format!("WRITE: refused: {error:#}"))
}

/// ... and has it when it is opened again.
pub fn check_after(store: &dyn Target) -> Result<(), String> {
    match store.get(AFTER_KEY, &mut Vec::new()) {
        Ok(true) => Ok(()),
        Ok(false) => Err("WRITE: a synced write after recovery is gone".into()),
        Err(error) => Err(format!("READ: {error:#}")),
    }
}

/// Everything, read forward and checked against everything read backward.
fn contents(store: &dyn Target) -> Result<Model, String> {
    let read = |reverse| {
        let mut pairs = Vec::new();
        let done = store.scan(None, reverse, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            true
        });
        done.map(|()| pairs).map_err(|error| format!("READ: {error:#}"))
    };
    let (forward, mut backward) = (read(false)?, read(true)?);
    backward.reverse();
    match forward == backward {
        true => Ok(forward.into_iter().collect()),
        false => Err("WRONG: forward and backward scans differ".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engines, target::Settings};

    /// A store with these of the script's batches.
    fn store(dir: &std::path::Path, script: Script, batches: impl Iterator<Item = u64>) -> Box<dyn Target> {
        let store = engines::engine("terrace").unwrap().open(dir, &Settings::default()).unwrap();
        batches.for_each(|number| script.batch(number).write(&*store, false).unwrap());
        store
    }

    #[test]
    fn a_prefix_is_one_and_everything_else_has_a_name() {
        let script = Script { seed: 5, batches: 300 };
        let judge = |batches: &mut dyn Iterator<Item = u64>, promised| {
            let dir = tempfile::tempdir().unwrap();
            script.judge(promised, &*store(dir.path(), script, batches))
        };
        assert_eq!(judge(&mut std::iter::empty(), 0), Ok(0));
        assert_eq!(judge(&mut (1..=200), 200), Ok(200));
        assert!(judge(&mut (1..=200), 201).unwrap_err().starts_with("LOST"));
        // Some batch that is missing leaves no trace: one whose keys were all written again.
        let holes = (100..150).filter(|hole| judge(&mut (1..=160).filter(|n| n != hole), 0).is_err()).count();
        assert!(holes > 15, "only {holes} of 50 holes are seen");
        let other = Script { seed: 6, batches: 300 };
        let dir = tempfile::tempdir().unwrap();
        assert!(script.judge(0, &*store(dir.path(), other, 1..=50)).unwrap_err().starts_with("HOLE"));
    }

    #[test]
    fn a_store_is_writable_after_recovery_or_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script { seed: 1, batches: 10 };
        let store = store(dir.path(), script, 1..=10);
        assert!(check_after(&*store).unwrap_err().starts_with("WRITE"));
        write_after(&*store).unwrap();
        check_after(&*store).unwrap();
        assert_eq!(script.judge(10, &*store), Ok(10), "what was written after recovery is no part of the history");
    }
}
