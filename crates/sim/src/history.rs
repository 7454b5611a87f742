//! Everything that was done to a directory, indexed so that the state after any step is a few binary searches away.
//!
//! Steps are numbered from 1; step 0 is the state it began with. Names point to files and files outlive their
//! names, as inodes do: that is what lets a removed file come back.
use crate::{Image, Rules, image::Content};
use std::{collections::BTreeMap, io, sync::Arc};

/// Index into [`History::files`]; never reused.
pub(crate) type FileId = usize;

/// A value that changes from step to step; steps ascend.
pub(crate) struct Timeline<T>(Vec<(usize, T)>);

impl<T: Copy> Timeline<T> {
    fn new(step: usize, value: T) -> Timeline<T> {
        Timeline(vec![(step, value)])
    }

    fn push(&mut self, step: usize, value: T) {
        self.0.push((step, value));
    }

    fn now(&self) -> T {
        self.0.last().expect("made with a first value").1
    }

    /// Its value right after `step`; `None` before its first.
    pub fn at(&self, step: usize) -> Option<T> {
        self.until(step).last().map(|(_, value)| *value)
    }

    /// Its values up to `step`, with the steps at which it took them.
    pub fn until(&self, step: usize) -> &[(usize, T)] {
        &self.0[..self.0.partition_point(|(when, _)| *when <= step)]
    }
}

/// A file and how it grew.
pub(crate) struct File {
    pub content: Content,
    /// Size in bytes.
    pub written: Timeline<usize>,
    /// Bytes that were synced, a prefix.
    pub synced: Timeline<usize>,
    /// Bytes that were written back, a prefix: the next commit makes them durable.
    pub written_back: usize,
    /// Allocated ahead of its bytes, so that its growth is no part of the journal's history.
    pub preallocated: bool,
}

impl File {
    fn new(step: usize, content: Content, preallocated: bool) -> File {
        let (written, synced) = (Timeline::new(step, content.bytes()), Timeline::new(step, content.bytes()));
        File { content, written, synced, written_back: 0, preallocated }
    }
}

/// One directory operation: what the names it touches point to since then.
pub(crate) struct Change {
    pub step: usize,
    pub entries: Vec<(Arc<str>, Option<FileId>)>,
}

/// See the module. All methods act on the newest state, except those that take a step.
pub(crate) struct History {
    pub rules: Rules,
    pub steps: usize,
    /// When the directory itself was made.
    pub made: Option<usize>,
    pub names: BTreeMap<Arc<str>, Timeline<Option<FileId>>>,
    pub files: Vec<File>,
    /// Every change to `names` since step 0, in order.
    pub changes: Vec<Change>,
    /// Steps after which every name as it then was is durable.
    pub commits: Vec<usize>,
}

impl History {
    /// Begins with `image`, all of it durable.
    pub fn new(image: &Image, rules: Rules) -> History {
        let durable = |content: &Content| File::new(0, content.clone(), false);
        History {
            rules,
            steps: 0,
            made: image.made.then_some(0),
            names: image
                .files
                .keys()
                .enumerate()
                .map(|(id, name)| (name.clone(), Timeline::new(0, Some(id))))
                .collect(),
            files: image.files.values().map(durable).collect(),
            changes: Vec::new(),
            commits: vec![0],
        }
    }

    fn step(&mut self) -> usize {
        self.steps += 1;
        self.steps
    }

    /// The caller syncs the parent in the same breath, so this is durable at once.
    pub fn make_directory(&mut self) {
        if self.made.is_none() {
            self.made = Some(self.step());
        }
    }

    pub fn create(&mut self, name: &str, preallocated: bool) -> io::Result<FileId> {
        if self.made.is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.find(name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = self.files.len();
        self.change(vec![(name.into(), Some(id))]);
        self.files.push(File::new(self.steps, Content::default(), preallocated));
        Ok(id)
    }

    pub fn append(&mut self, id: FileId, bytes: &[u8]) {
        let now = self.step();
        let file = &mut self.files[id];
        file.content.append(bytes);
        file.written.push(now, file.content.bytes());
    }

    /// `fdatasync`. On ext4 one that has anything new to say commits the journal, and with it every directory
    /// operation so far; a rename or a link alone is nothing new to it, and neither are bytes in preallocated space.
    pub fn sync(&mut self, id: FileId) {
        let (now, last) = (self.step(), self.last_commit(self.steps));
        let file = &mut self.files[id];
        let written = file.written.now();
        let news = !file.preallocated && (written > file.synced.now() || file.written.at(last).is_none());
        file.synced.push(now, written);
        if news && self.rules == Rules::Ext4 {
            self.commits.push(now);
        }
    }

    /// `sync_file_range`, all of it, waited for.
    pub fn write_back(&mut self, id: FileId) {
        self.step();
        let file = &mut self.files[id];
        file.written_back = file.written.now();
    }

    /// Of the journal, on demand. Without the file system for it, no more than POSIX says of such calls: nothing.
    pub fn commit(&mut self) {
        let now = self.step();
        if self.rules == Rules::Ext4 {
            self.commits.push(now);
            for file in self.files.iter_mut().filter(|file| file.written_back > file.synced.now()) {
                file.synced.push(now, file.written_back);
            }
        }
    }

    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let id = self.find(from)?;
        if self.find(to).ok() != Some(id) {
            self.change(vec![(from.into(), None), (to.into(), Some(id))]);
        }
        Ok(())
    }

    pub fn link(&mut self, from: &str, to: &str) -> io::Result<()> {
        let id = self.find(from)?;
        if self.find(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(vec![(to.into(), Some(id))]);
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        self.find(name)?;
        self.change(vec![(name.into(), None)]);
        Ok(())
    }

    pub fn sync_directory(&mut self) {
        let now = self.step();
        self.commits.push(now);
    }

    fn change(&mut self, entries: Vec<(Arc<str>, Option<FileId>)>) {
        let step = self.step();
        for (name, id) in &entries {
            self.names.entry(name.clone()).or_insert_with(|| Timeline(Vec::new())).push(step, *id);
        }
        self.changes.push(Change { step, entries });
    }

    /// The file of this name, now.
    pub fn find(&self, name: &str) -> io::Result<FileId> {
        self.names.get(name).and_then(Timeline::now).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Every name as it was right after `step`.
    pub fn names_at(&self, step: usize) -> BTreeMap<Arc<str>, FileId> {
        self.names.iter().filter_map(|(name, ids)| Some((name.clone(), ids.at(step)??))).collect()
    }

    /// The newest step not after `step` that made every name durable.
    pub fn last_commit(&self, step: usize) -> usize {
        self.commits[self.commits.partition_point(|commit| *commit <= step) - 1]
    }
}
