//! Files that a store keeps open for the next read, up to a limit. Above the limit, the least
//! recently read file is closed first.
use super::shares::{Closes, Share};
use crate::Result;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Arc, Weak},
};

/// Open files, each with a key. Each open file takes a descriptor.
pub(super) struct OpenFiles<K, F> {
    most: Arc<Share>,
    open: Mutex<Open<K, F>>, // a leaf lock; no I/O under it
}

struct Open<K, F> {
    /// The open files by key. Each file comes with the number of its last read, as counted by
    /// `now`.
    files: HashMap<K, (F, u64)>,
    /// The key of each file by the number of its last read. The first file is the least recently
    /// read one.
    by_read: BTreeMap<u64, K>,
    /// Number of reads so far.
    now: u64,
}

impl<K: Clone + Eq + Hash, F: Clone> OpenFiles<K, F> {
    /// Makes an empty set. `most` limits the number of open files in the set.
    pub fn new(most: Arc<Share>) -> Arc<OpenFiles<K, F>>
    where
        K: Send + 'static,
        F: Send + 'static,
    {
        let open = Open { files: HashMap::new(), by_read: BTreeMap::new(), now: 0 };
        let files = Arc::new(OpenFiles { most, open: Mutex::new(open) });
        let holder: Weak<dyn Closes> = Arc::<OpenFiles<K, F>>::downgrade(&files);
        files.most.holds(holder);
        files
    }

    /// Returns the file of `key`. Opens it with `open` if it is not open.
    pub fn get(&self, key: &K, open: impl FnOnce() -> Result<F>) -> Result<F> {
        if let Some(file) = self.open.lock().get(key) {
            return Ok(file);
        }
        let file = open()?;
        let closed = self.open.lock().add(key, file.clone(), self.most.most());
        drop(closed); // closes files, which is I/O
        Ok(file)
    }

    /// Closes the files whose key satisfies `is_one`. Called before these files are removed.
    pub fn forget(&self, is_one: impl Fn(&K) -> bool) {
        let closed = self.open.lock().forget(is_one);
        drop(closed);
    }
}

impl<K: Clone + Eq + Hash + Send, F: Clone + Send> Closes for OpenFiles<K, F> {
    fn fit(&self) {
        let closed = self.open.lock().fit(self.most.most());
        drop(closed);
    }
}

impl<K: Clone + Eq + Hash, F: Clone> Open<K, F> {
    fn get(&mut self, key: &K) -> Option<F> {
        let (file, read) = self.files.get_mut(key)?;
        self.now += 1;
        self.by_read.remove(&std::mem::replace(read, self.now));
        self.by_read.insert(self.now, key.clone());
        Some(file.clone())
    }

    /// Adds a file. Returns the files that must be closed to stay within the limit.
    fn add(&mut self, key: &K, file: F, most: usize) -> Vec<F> {
        self.now += 1;
        // Another reader may have opened the same file first.
        let before = self.files.insert(key.clone(), (file, self.now));
        before.iter().for_each(|(_, read)| drop(self.by_read.remove(read)));
        self.by_read.insert(self.now, key.clone());
        let mut closed = self.fit(most.max(1));
        closed.extend(before.map(|(file, _)| file));
        closed
    }

    /// Removes files from the set until at most `most` are left, and returns them.
    fn fit(&mut self, most: usize) -> Vec<F> {
        let mut closed = Vec::new();
        while self.files.len() > most
            && let Some((_, oldest)) = self.by_read.pop_first()
        {
            closed.extend(self.files.remove(&oldest).map(|(file, _)| file));
        }
        closed
    }

    fn forget(&mut self, is_one: impl Fn(&K) -> bool) -> Vec<F> {
        self.by_read.retain(|_, key| !is_one(key));
        self.files.extract_if(|key, _| is_one(key)).map(|(_, (file, _))| file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_read_file_is_closed_first() {
        let files = OpenFiles::new(Share::alone(2));
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
