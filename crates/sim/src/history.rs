//! Everything that was done to a directory, indexed so that the state after any step is a few binary searches away.
//!
//! Steps are numbered from 1; step 0 is the state it began with. Names point to files and files outlive their
//! names, as inodes do: that is what lets a removed file come back.
use crate::{Image, Rng, Rules, image::Content};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::{Bound, Range},
    sync::Arc,
};

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
    /// Bytes that were written back, a prefix: what a commit of this moment makes durable.
    written_back: Timeline<usize>,
    /// Ranges whose space was given back, with the steps at which that was. A power cut may undo it, which no test relies on:
    /// these states have zeros there, those before have the bytes.
    punched: Vec<(usize, Range<usize>)>,
    /// Allocated ahead of its bytes, so that its growth is no part of the journal's history.
    pub preallocated: bool,
}

impl File {
    fn new(step: usize, content: Content, preallocated: bool) -> File {
        let there = || Timeline::new(step, content.bytes());
        File { written: there(), synced: there(), written_back: there(), punched: Vec::new(), content, preallocated }
    }

    /// `content` with zeros where something was given back up to `step`.
    pub fn punched_at(&self, step: usize, content: Content) -> Content {
        let until = self.punched.partition_point(|(when, _)| *when <= step);
        content.without(self.punched[..until].iter().map(|(_, range)| range.clone()))
    }

    /// A commit of the state right after `covers` is over `now`.
    fn commit(&mut self, now: usize, covers: usize) {
        if let Some(bytes) = self.written_back.at(covers)
            && bytes > self.synced.now()
        {
            self.synced.push(now, bytes);
        }
    }
}

/// A commit of the journal that is over.
pub(crate) struct Commit {
    /// The step with which it was.
    ended: usize,
    /// Every name as it was after this step is durable.
    covers: usize,
}

/// ext4's journal as one can see it: commits one by one, each counted as the last it does. Who asks how far it is may find that
/// meanwhile one has begun, or ended.
struct Journal {
    rng: Rng,
    counted: u64,
    /// What the commit in flight covers; every later step belongs to the transaction that runs.
    in_flight: Option<usize>,
    /// Since when nothing is committed any more.
    aborted: Option<usize>,
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
    /// In the order in which they came to their ends.
    commits: Vec<Commit>,
    journal: Journal,
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
            commits: vec![Commit { ended: 0, covers: 0 }],
            journal: Journal { rng: Rng::new(0), counted: 0, in_flight: None, aborted: None },
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
        let folder = folder_of(name);
        if self.made.is_none() || folder.is_some_and(|folder| self.find(folder).is_err()) {
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
    /// operation so far; a rename or a link alone is nothing new to it, and neither are bytes in preallocated space. What
    /// it commits of other files is not relied on before it is counted.
    pub fn sync(&mut self, id: FileId) -> io::Result<()> {
        self.check_journal()?;
        let (now, last) = (self.step(), self.last_commit(self.steps));
        let file = &mut self.files[id];
        let written = file.written.now();
        let news = !file.preallocated && (written > file.synced.now() || file.written.at(last).is_none());
        file.synced.push(now, written);
        if news && self.rules == Rules::Ext4 {
            self.names_committed(now);
        }
        Ok(())
    }

    /// `sync_file_range`, all of it, waited for.
    pub fn write_back(&mut self, id: FileId) {
        self.time_passes();
        let now = self.step();
        let file = &mut self.files[id];
        let written = file.written.now();
        file.written_back.push(now, written);
    }

    /// Of the journal, on demand. Without the file system for it, no more than POSIX says of such calls: nothing.
    pub fn commit(&mut self) -> io::Result<()> {
        self.check_journal()?;
        let now = self.step();
        if self.rules == Rules::Ext4 {
            self.commit_ends(now);
            self.journal.in_flight = Some(now);
            self.commit_ends(now);
        }
        Ok(())
    }

    /// The journal's own count of commits.
    pub fn counted(&mut self) -> u64 {
        self.time_passes();
        self.journal.counted
    }

    /// The transaction that runs: what a file that was just changed waits for.
    pub fn running(&self) -> u32 {
        (self.journal.counted + 1) as u32 + u32::from(self.journal.in_flight.is_some())
    }

    /// Fails once the journal was aborted, as everything does that would have to change metadata.
    pub fn check_journal(&self) -> io::Result<()> {
        if self.journal.aborted.is_some() { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    /// From now on nothing is committed, though it is counted.
    pub fn abort_journal(&mut self) {
        self.journal.aborted = Some(self.steps);
    }

    /// The last step that a power cut after `step` may leave.
    pub fn last_possible(&self, step: usize) -> usize {
        self.journal.aborted.map_or(step, |aborted| aborted.min(step))
    }

    /// The journal goes on, or does not, as chance will have it.
    fn time_passes(&mut self) {
        if self.rules != Rules::Ext4 || !self.journal.rng.chance(1, 3) {
            return;
        }
        match self.journal.in_flight {
            _ if self.journal.aborted.is_some() => self.journal.counted += 1,
            None => self.journal.in_flight = Some(self.steps),
            Some(_) => {
                let now = self.step();
                self.commit_ends(now);
            }
        }
    }

    /// The commit in flight, if there is one, is over and counted.
    fn commit_ends(&mut self, now: usize) {
        if let Some(covers) = self.journal.in_flight.take() {
            self.commits.push(Commit { ended: now, covers });
            self.files.iter_mut().for_each(|file| file.commit(now, covers));
            self.journal.counted += 1;
        }
    }

    /// A commit of all names has been waited for, though it is not counted yet.
    fn names_committed(&mut self, now: usize) {
        self.commit_ends(now);
        self.commits.push(Commit { ended: now, covers: now });
        self.journal.in_flight = (self.rules == Rules::Ext4).then_some(now);
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
        folder_of(to).map_or(Ok(0), |folder| self.find(folder))?;
        if self.find(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(vec![(to.into(), Some(id))]);
        Ok(())
    }

    /// Removes a folder, named with its `/`.
    pub fn remove_folder(&mut self, folder: &str) -> io::Result<()> {
        if self.within(folder).any(|(name, ids)| &**name != folder && ids.now().is_some()) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.remove(folder)
    }

    /// A folder and what it held at any time.
    fn within<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a Arc<str>, &'a Timeline<Option<FileId>>)> {
        let from = (Bound::Included(folder), Bound::Unbounded);
        self.names.range::<str, _>(from).take_while(move |(name, _)| name.starts_with(folder))
    }

    /// A sync of each file in a folder, named with its `/`, and of the folder and what it lies in.
    pub fn sync_folder(&mut self, folder: &str) -> io::Result<()> {
        let files: Vec<FileId> = self.within(folder).filter_map(|(_, ids)| ids.now()).collect();
        files.into_iter().try_for_each(|id| self.sync(id))?;
        self.sync_directory()
    }

    /// Gives space back, unless the file has another name too.
    pub fn punch(&mut self, name: &str, range: Range<u64>) -> io::Result<()> {
        let id = self.find(name)?;
        if self.names.values().filter(|names| names.now() == Some(id)).count() == 1 {
            let now = self.step();
            self.files[id].punched.push((now, range.start as usize..range.end as usize));
        }
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        self.find(name)?;
        self.change(vec![(name.into(), None)]);
        Ok(())
    }

    pub fn sync_directory(&mut self) -> io::Result<()> {
        self.check_journal()?;
        let now = self.step();
        self.names_committed(now);
        Ok(())
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

    /// Those of `names` whose folders are there: what lies in a folder that was lost, or was removed while a removal within
    /// was lost, is nowhere.
    pub fn reachable(&self, mut names: BTreeMap<Arc<str>, FileId>) -> BTreeMap<Arc<str>, FileId> {
        let mut folders = BTreeSet::new(); // a folder comes before what lies in it
        names.retain(|name, _| {
            let there = folder_of(name).is_none_or(|folder| folders.contains(folder));
            if there && name.ends_with('/') {
                folders.insert(name.clone());
            }
            there
        });
        names
    }

    /// Every name as it was right after `step`.
    pub fn names_at(&self, step: usize) -> BTreeMap<Arc<str>, FileId> {
        self.names.iter().filter_map(|(name, ids)| Some((name.clone(), ids.at(step)??))).collect()
    }

    /// The newest step not after `step` that made every name durable.
    pub fn last_commit(&self, step: usize) -> usize {
        self.commits[self.commits.partition_point(|commit| commit.ended <= step) - 1].covers
    }
}

/// The folder that `name` lies in, named with its `/`; `None` for the top, and for `lost`, which is made without being asked
/// for. A folder is a file whose name ends in `/`.
fn folder_of(name: &str) -> Option<&str> {
    let end = name.trim_end_matches('/').rfind('/')?;
    (name[..end].rsplit('/').next() != Some("lost")).then_some(&name[..=end])
}
