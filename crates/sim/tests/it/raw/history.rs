//! A random history that creates, writes, renames and removes files on a raw device, and the
//! oracle that checks the device after a power cut.
use std::{collections::BTreeMap, sync::Arc};
use terrace_sim::{CrashDevice, Rng};
use terrace_vfs::{DirectoryLock, FileSystem, FileUse, WalWriteMode, WriteFile, raw::RawFs};

/// The contents of a file, and the lengths that a power cut must preserve.
#[derive(Clone, Default)]
pub struct Written {
    bytes: Vec<u8>,
    /// Pairs of a step and a length. The length is durable from that step on.
    promises: Vec<(usize, usize)>,
}

/// Names, each with the index of its file in `History::files`.
pub type Names = BTreeMap<String, usize>;

pub struct History {
    pub device: CrashDevice,
    pub fs: Arc<RawFs>,
    held: Option<Box<dyn DirectoryLock>>,
    rng: Rng,
    pub files: Vec<Written>,
    /// All versions of the file list. Each has the step at which the change to this version began.
    pub names: Vec<(usize, Names)>,
    /// Promises of durability, as pairs of a step and an index in `names`. The version of the file
    /// list with this index is durable from this step on.
    promises: Vec<(usize, usize)>,
    pub open: Vec<(usize, Box<dyn WriteFile>)>,
}

impl History {
    pub fn new(device: CrashDevice, seed: u64) -> History {
        let fs = RawFs::new(Arc::new(device.clone()), "device");
        let held = Some(fs.lock(true).unwrap());
        let names = vec![(0, Names::new())];
        let (promises, rng) = (vec![(0, 0)], Rng::new(seed));
        History { device, fs, held, rng, files: Vec::new(), names, promises, open: Vec::new() }
    }

    pub fn now(&self) -> Names {
        self.names.last().unwrap().1.clone()
    }

    /// Returns a random name, if there is any.
    fn any_name(&mut self) -> Option<String> {
        let names: Vec<String> = self.now().into_keys().collect();
        (!names.is_empty()).then(|| names[self.rng.below(names.len())].clone())
    }

    pub fn act(&mut self) {
        let began = self.device.steps();
        let mut names = self.now();
        match self.rng.below(20) {
            0..=3 if names.len() < 12 => {
                // Long names fill the slot journal, which causes checkpoints.
                let name = format!("{:03}{}", self.files.len(), "-".repeat(self.rng.below(2) * 200));
                let file = match self.rng.below(3) {
                    0 => self.fs.create_for(&name, FileUse::Log(WalWriteMode::Write)),
                    1 => self.fs.create_for(&name, FileUse::Table { level: 2 }),
                    _ => self.fs.create(&name),
                };
                self.open.push((self.files.len(), file.unwrap()));
                names.insert(name, self.files.len());
                self.files.push(Written::default());
            }
            4..=10 if !self.open.is_empty() => {
                let at = self.rng.below(self.open.len());
                let (number, file) = &mut self.open[at];
                let bytes = [100, 5000, 20_000][self.rng.below(3)];
                let bytes: Vec<u8> = (0..1 + self.rng.below(bytes)).map(|_| self.rng.next_u64() as u8 | 1).collect();
                if self.files[*number].bytes.len() < 60_000 {
                    match file.append(&bytes) {
                        Ok(()) => self.files[*number].bytes.extend(bytes),
                        Err(_) => assert!(!names.values().any(|named| named == number)),
                    }
                }
            }
            11..=13 if !self.open.is_empty() => {
                let (number, file) = &self.open[self.rng.below(self.open.len())];
                file.sync().unwrap();
                let file = &mut self.files[*number];
                file.promises.push((self.device.steps(), file.bytes.len()));
                self.promises.push((self.device.steps(), self.names.len() - 1));
            }
            14 if !self.open.is_empty() => drop(self.open.swap_remove(self.rng.below(self.open.len()))),
            15 => {
                let Some(from) = self.any_name() else { return };
                let to = self.any_name().filter(|_| self.rng.chance(1, 2)).unwrap_or("renamed".into());
                self.fs.rename(&from, &to).unwrap();
                let file = names.remove(&from).unwrap();
                names.insert(to, file);
            }
            16 if !names.contains_key("lost/link") => {
                let Some(from) = self.any_name() else { return };
                self.fs.link(&from, "lost/link").unwrap();
                names.insert("lost/link".into(), names[&from]);
            }
            17 | 18 => {
                let Some(name) = self.any_name() else { return };
                self.fs.remove(&name).unwrap();
                names.remove(&name);
            }
            _ => {
                self.fs.sync_directory().unwrap();
                self.promises.push((self.device.steps(), self.names.len() - 1));
            }
        }
        // A writer of a removed file gets no more slots, but syncing the file must still work.
        if self.rng.chance(1, 2) {
            self.open.retain(|(number, _)| names.values().any(|named| named == number));
        }
        if names != self.names.last().unwrap().1 {
            self.names.push((began, names));
        }
        assert_eq!(self.fs.problems().unwrap(), Vec::<String>::new());
    }

    /// Simulates a kill of the process: drops all handles, and continues with the contents that the
    /// device has.
    pub fn kill(&mut self) {
        self.open.clear();
        self.held = None;
        self.held = Some(self.fs.lock(true).unwrap());
        self.judge(usize::MAX, &self.fs).unwrap();
        for (name, number) in self.now() {
            assert_eq!(read(&self.fs, &name).unwrap(), self.files[number].bytes, "{name} after the process was killed");
        }
    }

    /// The oracle: checks the file system that was opened after a power cut at `step`. Returns a
    /// text if a promise is broken.
    pub fn judge(&self, step: usize, fs: &RawFs) -> Result<(), String> {
        let problems = fs.problems().map_err(|e| format!("OPEN: {e}"))?;
        if !problems.is_empty() {
            return Err(format!("CHECK: {problems:?}"));
        }
        let found: Vec<String> = fs.files().unwrap().into_iter().map(|file| file.name).collect();
        let at_least = self.promises.iter().filter(|(at, _)| *at <= step).map(|(_, names)| *names).max().unwrap();
        let possible = self.names[at_least..].iter().filter(|(began, _)| *began <= step);
        let mut why = format!("NAMES: {found:?}, at least {:?} are durable", self.names[at_least].1);
        for (_, names) in possible.filter(|(_, names)| names.keys().eq(&found)) {
            match self.judge_contents(step, fs, names) {
                Ok(()) => return Ok(()),
                Err(wrong) => why = wrong,
            }
        }
        Err(why)
    }

    fn judge_contents(&self, step: usize, fs: &RawFs, names: &Names) -> Result<(), String> {
        for (name, number) in names {
            let written = &self.files[*number];
            let promised = written.promises.iter().filter(|(at, _)| *at <= step).map(|(_, bytes)| *bytes).max();
            let (bytes, promised) = (read(fs, name)?, promised.unwrap_or(0));
            if bytes.len() > written.bytes.len() || bytes.get(..promised) != Some(&written.bytes[..promised]) {
                return Err(format!("BYTES: {name} has {} bytes, {promised} of them durable", bytes.len()));
            }
        }
        Ok(())
    }
}

pub fn read(fs: &RawFs, name: &str) -> Result<Vec<u8>, String> {
    let file = fs.open(name).map_err(|e| format!("{name}: {e}"))?;
    let bytes = file.bytes().map_err(|e| format!("{name}: {e}"))?;
    file.read_at(0, bytes as usize).map_err(|e| format!("{name}: {e}"))
}
