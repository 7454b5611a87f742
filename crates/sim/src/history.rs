//! The recorded history of a directory, for the crash model. Its indexes give the state of the
//! directory after any step with a few binary searches.
//!
//! A step is one recorded operation. Steps are numbered from 1, and step 0 is the initial state. A
//! name refers to a file. As with an inode, a file exists longer than its names. A removed file
//! can therefore reappear after a power cut.
use crate::{Image, Rng, Rules, image::Content};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::{Bound, Range},
    sync::Arc,
};

/// Index into [`History::files`]; never reused.
pub(crate) type FileId = usize;

/// A value that changes over time, with the steps of its changes in ascending order.
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

    /// Returns the value right after `step`, or `None` if the timeline begins later.
    pub fn at(&self, step: usize) -> Option<T> {
        self.until(step).last().map(|(_, value)| *value)
    }

    /// Returns the values up to `step`, each with the step of its change.
    pub fn until(&self, step: usize) -> &[(usize, T)] {
        &self.0[..self.0.partition_point(|(when, _)| *when <= step)]
    }
}

/// A file and its growth.
pub(crate) struct File {
    pub content: Content,
    /// Size in bytes.
    pub written: Timeline<usize>,
    /// Length in bytes of the synced prefix.
    pub synced: Timeline<usize>,
    /// Length in bytes of the prefix that was written back but not synced. A journal commit that
    /// begins now makes this prefix durable.
    written_back: Timeline<usize>,
    /// Punched ranges, each with the step of its hole. States before that step contain the bytes,
    /// later states contain zeros. In this model a power cut never undoes a hole, but no test
    /// relies on this.
    punched: Vec<(usize, Range<usize>)>,
    /// Whether space is allocated in advance. Appends within the allocated space are not journaled.
    pub preallocated: bool,
}

impl File {
    fn new(step: usize, content: Content, preallocated: bool) -> File {
        let initial = || Timeline::new(step, content.bytes());
        File {
            written: initial(),
            synced: initial(),
            written_back: initial(),
            punched: Vec::new(),
            content,
            preallocated,
        }
    }

    /// Returns `content` with zeros in the ranges punched up to `step`.
    pub fn punched_at(&self, step: usize, content: Content) -> Content {
        let until = self.punched.partition_point(|(when, _)| *when <= step);
        content.without(self.punched[..until].iter().map(|(_, range)| range.clone()))
    }

    /// Applies a journal commit to the file. The commit completes at step `now` and covers the
    /// state right after step `covers`.
    fn commit(&mut self, now: usize, covers: usize) {
        if let Some(bytes) = self.written_back.at(covers)
            && bytes > self.synced.now()
        {
            self.synced.push(now, bytes);
        }
    }
}

/// A completed journal commit.
pub(crate) struct Commit {
    /// The step at which the commit completed.
    ended: usize,
    /// All names of the state right after this step are durable.
    covers: usize,
}

/// ext4's journal as user space can observe it. It runs one commit at a time and counts each
/// commit when it completes. Between two observations a commit may begin or complete.
struct Journal {
    rng: Rng,
    counted: u64,
    /// The last step that the running commit covers. Later steps belong to the next transaction.
    in_flight: Option<usize>,
    /// The step at which the journal was aborted. Nothing is committed after it.
    aborted: Option<usize>,
}

/// A directory operation: each name that it changes, with the name's new file or `None`.
pub(crate) struct Change {
    pub step: usize,
    pub entries: Vec<(Arc<str>, Option<FileId>)>,
}

/// The recorded history of a directory. Methods use the newest state unless they have a step as an
/// argument.
pub(crate) struct History {
    pub rules: Rules,
    pub steps: usize,
    /// The step at which the directory itself was created.
    pub made: Option<usize>,
    pub names: BTreeMap<Arc<str>, Timeline<Option<FileId>>>,
    pub files: Vec<File>,
    /// Every change to `names` since step 0, in order.
    pub changes: Vec<Change>,
    /// Completed journal commits, in order of completion.
    commits: Vec<Commit>,
    journal: Journal,
}

impl History {
    /// Returns a history that begins with `image`, all of it durable.
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

    /// Creates the directory. It is durable immediately, because the caller also syncs the parent
    /// directory.
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

    /// Models `fdatasync`. On ext4, a sync of a file with new metadata commits the journal, and the
    /// commit makes every earlier directory operation durable. A rename or link alone is not new
    /// metadata of the file. Bytes that were appended to preallocated space are not, either. The
    /// commit also covers other files. The model nevertheless lets a power cut lose those files
    /// until the journal has counted the commit.
    pub fn sync(&mut self, id: FileId) -> io::Result<()> {
        self.check_journal()?;
        let (now, last) = (self.step(), self.last_commit(self.steps));
        let file = &mut self.files[id];
        let written = file.written.now();
        let is_new = !file.preallocated && (written > file.synced.now() || file.written.at(last).is_none());
        file.synced.push(now, written);
        if is_new && self.rules == Rules::Ext4 {
            self.names_committed(now);
        }
        Ok(())
    }

    /// Models `sync_file_range` of the whole file with waiting for completion.
    pub fn write_back(&mut self, id: FileId) {
        self.advance_journal();
        let now = self.step();
        let file = &mut self.files[id];
        let written = file.written.now();
        file.written_back.push(now, written);
    }

    /// Commits the journal. Under POSIX rules a program cannot do this, so the call has no effect.
    pub fn commit(&mut self) -> io::Result<()> {
        self.check_journal()?;
        let now = self.step();
        if self.rules == Rules::Ext4 {
            self.complete_commit(now);
            self.journal.in_flight = Some(now);
            self.complete_commit(now);
        }
        Ok(())
    }

    /// Returns the number of commits that the journal has counted.
    pub fn counted(&mut self) -> u64 {
        self.advance_journal();
        self.journal.counted
    }

    /// Returns the id of the running journal transaction, to which a change of a file now belongs.
    pub fn running(&self) -> u32 {
        (self.journal.counted + 1) as u32 + u32::from(self.journal.in_flight.is_some())
    }

    /// Returns an error if the journal was aborted. Every operation that changes metadata then
    /// fails with this error.
    pub fn check_journal(&self) -> io::Result<()> {
        if self.journal.aborted.is_some() { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    /// Aborts the journal. From now on nothing is committed, although the commit counter continues.
    pub fn abort_journal(&mut self) {
        self.journal.aborted = Some(self.steps);
    }

    /// Returns the last step whose operations can survive a power cut after `step`.
    pub fn last_possible(&self, step: usize) -> usize {
        self.journal.aborted.map_or(step, |aborted| aborted.min(step))
    }

    /// Randomly begins or completes a commit.
    fn advance_journal(&mut self) {
        if self.rules != Rules::Ext4 || !self.journal.rng.chance(1, 3) {
            return;
        }
        match self.journal.in_flight {
            _ if self.journal.aborted.is_some() => self.journal.counted += 1,
            None => self.journal.in_flight = Some(self.steps),
            Some(_) => {
                let now = self.step();
                self.complete_commit(now);
            }
        }
    }

    /// Completes and counts the running commit, if there is one.
    fn complete_commit(&mut self, now: usize) {
        if let Some(covers) = self.journal.in_flight.take() {
            self.commits.push(Commit { ended: now, covers });
            self.files.iter_mut().for_each(|file| file.commit(now, covers));
            self.journal.counted += 1;
        }
    }

    /// Records a completed commit of all names, for a caller that has waited for it. The journal's
    /// counter does not include this commit yet.
    fn names_committed(&mut self, now: usize) {
        self.complete_commit(now);
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

    /// Removes a folder, given with its trailing `/`.
    pub fn remove_folder(&mut self, folder: &str) -> io::Result<()> {
        if self.within(folder).any(|(name, ids)| &**name != folder && ids.now().is_some()) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.remove(folder)
    }

    /// Returns the folder and every name that ever was in it.
    fn within<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a Arc<str>, &'a Timeline<Option<FileId>>)> {
        let from = (Bound::Included(folder), Bound::Unbounded);
        self.names.range::<str, _>(from).take_while(move |(name, _)| name.starts_with(folder))
    }

    /// Syncs each file in a folder, the folder and its parent. The folder is given with its
    /// trailing `/`.
    pub fn sync_folder(&mut self, folder: &str) -> io::Result<()> {
        let files: Vec<FileId> = self.within(folder).filter_map(|(_, ids)| ids.now()).collect();
        files.into_iter().try_for_each(|id| self.sync(id))?;
        self.sync_directory()
    }

    /// Punches a hole, unless the file has another name as well.
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

    /// Returns the file that has this name now.
    pub fn find(&self, name: &str) -> io::Result<FileId> {
        self.names.get(name).and_then(Timeline::now).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Removes from `names` the names whose parent folder does not exist after the power cut. A
    /// folder is missing for one of two reasons: the power cut lost the folder, or the removal of
    /// the folder survived the power cut and the removal of a name in it did not.
    pub fn reachable(&self, mut names: BTreeMap<Arc<str>, FileId>) -> BTreeMap<Arc<str>, FileId> {
        // A folder sorts before its contents.
        let mut folders = BTreeSet::new();
        names.retain(|name, _| {
            let exists = folder_of(name).is_none_or(|folder| folders.contains(folder));
            if exists && name.ends_with('/') {
                folders.insert(name.clone());
            }
            exists
        });
        names
    }

    /// Returns every name and its file right after `step`.
    pub fn names_at(&self, step: usize) -> BTreeMap<Arc<str>, FileId> {
        self.names.iter().filter_map(|(name, ids)| Some((name.clone(), ids.at(step)??))).collect()
    }

    /// Returns the newest step up to `step` whose names are all durable.
    pub fn last_commit(&self, step: usize) -> usize {
        self.commits[self.commits.partition_point(|commit| commit.ended <= step) - 1].covers
    }
}

/// Returns the parent folder of `name`, with its trailing `/`. Returns `None` for top-level names,
/// and for names in a folder `lost`, which exists without being created. A folder is recorded as a
/// file whose name ends in `/`.
fn folder_of(name: &str) -> Option<&str> {
    let end = name.trim_end_matches('/').rfind('/')?;
    (name[..end].rsplit('/').next() != Some("lost")).then_some(&name[..=end])
}
