//! The file list of a device, in memory. The slot journal describes this list.
//!
//! The file list rejects every impossible change. A journal with valid checksums but an
//! inconsistent history thus causes an error, and never two files that share a slot.
use std::collections::BTreeMap;
use terrace_format::raw::{Change, Form, Superblock};

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A run of adjacent slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first slot.
    pub first: u32,
    /// Number of slots.
    pub count: u32,
}

impl Run {
    pub fn slots(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// A file of the device's file list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The form in which the file's bytes are stored.
    pub form: Form,
    /// The lifetime class of the file.
    pub stream: u8,
    /// The length of a plain file; 0 for a log, whose pages record the length.
    pub bytes: u64,
    /// The slots of the file, in the order of its bytes.
    pub runs: Vec<Run>,
    names: u32,
}

/// The file list: all files of a device, and the owner of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileList {
    slot_bytes: u64,
    files: BTreeMap<u64, FileEntry>,
    names: BTreeMap<String, u64>,
    /// For each slot, the number of the file that owns it; 0 if it has no owner.
    owners: Vec<u64>,
    /// The number that the next new file gets.
    next: u64,
    /// Upper bound for the size in bytes of a checkpoint of this list.
    weight: usize,
}

impl FileList {
    /// Creates an empty file list.
    pub fn new(superblock: &Superblock) -> FileList {
        FileList {
            slot_bytes: superblock.sizes().slot_bytes.into(),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            owners: vec![0; superblock.slots() as usize],
            next: 1,
            weight: 16,
        }
    }

    /// Returns the number of the file `name`.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// Returns the file with this number.
    pub fn file(&self, number: u64) -> Option<&FileEntry> {
        self.files.get(&number)
    }

    /// Returns all names, each with its file.
    pub fn names(&self) -> impl Iterator<Item = (&str, u64, &FileEntry)> {
        self.names.iter().map(|(name, number)| (&**name, *number, &self.files[number]))
    }

    /// Returns the owner of each slot; 0 for a slot without an owner.
    pub fn owners(&self) -> &[u64] {
        &self.owners
    }

    /// Returns the number that the next new file gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns an upper bound for the size in bytes of a checkpoint of this list.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the changes that build this list from an empty one.
    pub fn changes(&self) -> Vec<Change> {
        let mut all = Vec::new();
        for (&file, entry) in &self.files {
            all.push(Change::File { file, form: entry.form, stream: entry.stream });
            all.extend(entry.runs.iter().map(|run| Change::Slots { file, first: run.first, count: run.count }));
            all.push(Change::Bytes { file, bytes: entry.bytes });
        }
        all.extend(self.names.iter().map(|(name, &file)| Change::Name { file, name: name.clone() }));
        all.push(Change::Next { file: self.next });
        all
    }

    /// Applies a change and returns the slots of a file that the change removes. The error is the
    /// reason why the change is impossible.
    pub fn apply(&mut self, change: &Change) -> Result<Vec<Run>, String> {
        match change {
            Change::File { file, form, stream } => self.begin(*file, *form, *stream)?,
            Change::Slots { file, first, count } => self.give(*file, Run { first: *first, count: *count })?,
            Change::Bytes { file, bytes } => self.set_bytes(*file, *bytes)?,
            Change::Name { file, name } => return self.name(*file, name),
            Change::Unname { name } => return self.unname(name),
            Change::Next { file } => self.next = self.next.max(*file),
            // The change `Flushed` affects only the journal and not the file list.
            Change::Flushed { .. } => {}
        }
        Ok(Vec::new())
    }

    /// Checks two invariants at the end of a replay: every file has a name, and every slot has at
    /// most one owner. Returns the violations.
    pub fn problems(&self) -> Vec<String> {
        let unnamed = self.files.iter().filter(|(_, file)| file.names == 0);
        let mut found: Vec<_> = unnamed.map(|(number, _)| format!("file {number} has no name")).collect();
        let mut owners = vec![0; self.owners.len()];
        for (number, file) in &self.files {
            for slot in file.runs.iter().flat_map(|run| run.slots()) {
                match owners.get_mut(slot as usize) {
                    Some(owner @ 0) => *owner = *number,
                    Some(other) => found.push(format!("slot {slot} belongs to files {other} and {number}")),
                    None => found.push(format!("file {number} has slot {slot}, which does not exist")),
                }
            }
        }
        let differ = owners.iter().zip(&self.owners).enumerate().filter(|(_, (actual, recorded))| actual != recorded);
        found.extend(differ.map(|(slot, (actual, recorded))| {
            format!("slot {slot} is owned by file {recorded}, but file {actual} has it")
        }));
        found
    }

    fn begin(&mut self, file: u64, form: Form, stream: u8) -> Result<(), String> {
        if file == 0 || file == u64::MAX || self.files.contains_key(&file) {
            return Err(format!("file {file} cannot begin here"));
        }
        self.next = self.next.max(file + 1);
        self.weight += 40;
        self.files.insert(file, FileEntry { form, stream, bytes: 0, runs: Vec::new(), names: 0 });
        Ok(())
    }

    fn give(&mut self, number: u64, run: Run) -> Result<(), String> {
        let file = self.files.get_mut(&number).ok_or_else(|| unknown(number))?;
        let slots =
            run.first.checked_add(run.count).filter(|_| run.count > 0).map(|end| run.first as usize..end as usize);
        let owners = slots.and_then(|slots| self.owners.get_mut(slots));
        let Some(owners) = owners.filter(|owners| owners.iter().all(|owner| *owner == 0)) else {
            return Err(format!("{} slots from {} are not free for file {number}", run.count, run.first));
        };
        owners.fill(number);
        match file.runs.last_mut() {
            Some(last) if last.first + last.count == run.first => last.count += run.count,
            _ => {
                self.weight += 24;
                file.runs.push(run);
            }
        }
        Ok(())
    }

    fn set_bytes(&mut self, number: u64, bytes: u64) -> Result<(), String> {
        let file = self.files.get_mut(&number).ok_or_else(|| unknown(number))?;
        let room = file.runs.iter().map(|run| u64::from(run.count)).sum::<u64>() * self.slot_bytes;
        if bytes > room || file.form == Form::Log && bytes > 0 {
            return Err(format!("file {number} cannot have {bytes} bytes"));
        }
        file.bytes = bytes;
        Ok(())
    }

    fn name(&mut self, number: u64, name: &str) -> Result<Vec<Run>, String> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("a name of {} bytes is empty or too long", name.len()));
        }
        let file = self.files.get_mut(&number).ok_or_else(|| unknown(number))?;
        // The new name is counted before an old file loses it. Otherwise a file that gets a name
        // which it already has would be removed.
        file.names += 1;
        let freed = if self.names.contains_key(name) { self.unname(name)? } else { Vec::new() };
        self.weight += name.len() + 16;
        self.names.insert(name.into(), number);
        Ok(freed)
    }

    fn unname(&mut self, name: &str) -> Result<Vec<Run>, String> {
        let number = self.names.remove(name).ok_or_else(|| format!("no file is named {name:?}"))?;
        self.weight -= name.len() + 16;
        let file = self.files.get_mut(&number).ok_or_else(|| unknown(number))?;
        file.names -= 1;
        if file.names > 0 {
            return Ok(Vec::new());
        }
        let removed = self.files.remove(&number).ok_or_else(|| unknown(number))?;
        self.weight -= 40 + 24 * removed.runs.len();
        removed.runs.iter().for_each(|run| self.owners[run.first as usize..][..run.count as usize].fill(0));
        Ok(removed.runs)
    }
}

fn unknown(number: u64) -> String {
    format!("file {number} does not exist")
}
