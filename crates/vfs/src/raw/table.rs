//! The list of files on a device: what the slot journal says. Pure; every change that cannot be is refused, so a journal whose
//! checksums are right but whose history is not ends in an error, never in two files that share a slot.
use std::collections::BTreeMap;
use terrace_format::raw::{Change, Form, Superblock};

/// Names are at most so long, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Slots one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Run {
    pub fn slots(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// How its bytes stand.
    pub form: Form,
    /// The kind of lifetime that it is placed by.
    pub stream: u8,
    /// A plain file's length; 0 for a log, whose pages tell.
    pub bytes: u64,
    /// Its slots, in the order of its bytes.
    pub runs: Vec<Run>,
    names: u32,
}

/// All files, and whose each slot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    slot_bytes: u64,
    files: BTreeMap<u64, File>,
    names: BTreeMap<String, u64>,
    /// By slot, the file that has it; 0 for none.
    owners: Vec<u64>,
    /// The number of the next file.
    next: u64,
    /// A bound on the bytes that a checkpoint takes.
    weight: usize,
}

impl Table {
    /// No files yet.
    pub fn new(superblock: &Superblock) -> Table {
        Table {
            slot_bytes: superblock.sizes().slot_bytes.into(),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            owners: vec![0; superblock.slots() as usize],
            next: 1,
            weight: 16,
        }
    }

    /// The file `name`, by its number.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// The file of this number.
    pub fn file(&self, number: u64) -> Option<&File> {
        self.files.get(&number)
    }

    /// All names, with their files.
    pub fn names(&self) -> impl Iterator<Item = (&str, u64, &File)> {
        self.names.iter().map(|(name, number)| (&**name, *number, &self.files[number]))
    }

    /// Whose each slot is, 0 for nobody's.
    pub fn owners(&self) -> &[u64] {
        &self.owners
    }

    /// The number of the next file.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// At least the bytes that a checkpoint of this takes.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// What makes such a list from none.
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

    /// Makes a change, or says why it cannot be. The slots of a file that goes with it are the answer.
    pub fn apply(&mut self, change: &Change) -> Result<Vec<Run>, String> {
        match change {
            Change::File { file, form, stream } => self.begin(*file, *form, *stream)?,
            Change::Slots { file, first, count } => self.give(*file, Run { first: *first, count: *count })?,
            Change::Bytes { file, bytes } => self.set_bytes(*file, *bytes)?,
            Change::Name { file, name } => return self.name(*file, name),
            Change::Unname { name } => return self.unname(name),
            Change::Next { file } => self.next = self.next.max(*file),
            Change::Flushed { .. } => {} // of the journal, not of files
        }
        Ok(Vec::new())
    }

    /// What must hold when a history has ended: every file has a name, no slot two owners or a lost one.
    pub fn problems(&self) -> Vec<String> {
        let unnamed = self.files.iter().filter(|(_, file)| file.names == 0);
        let mut found: Vec<_> = unnamed.map(|(number, _)| format!("file {number} has no name")).collect();
        let mut owners = vec![0; self.owners.len()];
        for (number, file) in &self.files {
            for slot in file.runs.iter().flat_map(|run| run.slots()) {
                match owners.get_mut(slot as usize) {
                    Some(owner @ 0) => *owner = *number,
                    Some(other) => found.push(format!("slot {slot} belongs to files {other} and {number}")),
                    None => found.push(format!("file {number} has slot {slot}, which there is not")),
                }
            }
        }
        let differ = owners.iter().zip(&self.owners).enumerate().filter(|(_, (is, told))| is != told);
        found.extend(differ.map(|(slot, (is, told))| format!("slot {slot} is file {told}'s, but {is} has it")));
        found
    }

    fn begin(&mut self, file: u64, form: Form, stream: u8) -> Result<(), String> {
        if file == 0 || file == u64::MAX || self.files.contains_key(&file) {
            return Err(format!("file {file} cannot begin here"));
        }
        self.next = self.next.max(file + 1);
        self.weight += 40;
        self.files.insert(file, File { form, stream, bytes: 0, runs: Vec::new(), names: 0 });
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
            return Err(format!("a name of {} bytes", name.len()));
        }
        let file = self.files.get_mut(&number).ok_or_else(|| unknown(number))?;
        file.names += 1; // first, so that naming a file again by its own name does not end it
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
        let gone = self.files.remove(&number).ok_or_else(|| unknown(number))?;
        self.weight -= 40 + 24 * gone.runs.len();
        gone.runs.iter().for_each(|run| self.owners[run.first as usize..][..run.count as usize].fill(0));
        Ok(gone.runs)
    }
}

fn unknown(number: u64) -> String {
    format!("file {number} is not there")
}
