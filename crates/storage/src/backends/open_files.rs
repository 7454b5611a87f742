//! Files that are kept open for the next read, as many as there may be; the one read longest ago is closed first.
use crate::Result;
use parking_lot::Mutex;
use std::{collections::HashMap, hash::Hash};

/// Files by what they are called. Each takes a descriptor.
pub(super) struct OpenFiles<K, F> {
    most: usize,
    open: Mutex<Open<K, F>>, // a leaf lock; no I/O under it
}

struct Open<K, F> {
    files: HashMap<K, Kept<F>>,
    /// Counts reads.
    now: u64,
}

struct Kept<F> {
    file: F,
    read: u64,
}

impl<K: Clone + Eq + Hash, F: Clone> OpenFiles<K, F> {
    /// At most `most` are kept open.
    pub fn new(most: usize) -> OpenFiles<K, F> {
        OpenFiles { most: most.max(1), open: Mutex::new(Open { files: HashMap::new(), now: 0 }) }
    }

    /// The file called `key`, opened if need be.
    pub fn get(&self, key: &K, open: impl FnOnce() -> Result<F>) -> Result<F> {
        if let Some(file) = self.open.lock().get(key) {
            return Ok(file);
        }
        let file = open()?;
        let closed = self.open.lock().add(key, file.clone(), self.most);
        drop(closed); // which is I/O
        Ok(file)
    }

    /// Closes those that are about to be removed.
    pub fn forget(&self, is_one: impl Fn(&K) -> bool) {
        let closed: Vec<_> = self.open.lock().files.extract_if(|key, _| is_one(key)).collect();
        drop(closed);
    }
}

impl<K: Clone + Eq + Hash, F: Clone> Open<K, F> {
    fn get(&mut self, key: &K) -> Option<F> {
        self.now += 1;
        let kept = self.files.get_mut(key)?;
        kept.read = self.now;
        Some(kept.file.clone())
    }

    /// Keeps one more; what has to go for it.
    fn add(&mut self, key: &K, file: F, most: usize) -> Vec<Kept<F>> {
        let mut closed: Vec<_> = self.files.insert(key.clone(), Kept { file, read: self.now }).into_iter().collect();
        while self.files.len() > most {
            let oldest = self.files.iter().min_by_key(|(_, kept)| kept.read).map(|(key, _)| key.clone());
            closed.extend(oldest.and_then(|oldest| self.files.remove(&oldest)));
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_one_read_longest_ago_is_closed_first() {
        let files = OpenFiles::new(2);
        let get = |key: u32| files.get(&key, || Ok(Arc::new(key))).expect("opened");
        let (first, second) = (get(1), get(2));
        assert!(Arc::ptr_eq(&first, &get(1)), "it is open");
        get(3);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 1), "read again, and not");
        files.forget(|key| *key == 1);
        assert_eq!(Arc::strong_count(&first), 1, "it is to be removed");
        assert!(!Arc::ptr_eq(&first, &get(1)));
    }
}
