//! What a power cut may take, and what it may not.
//!
//! Two things are uncertain when the power goes: which directory operations had reached the disk ([`Rules`]), and
//! which pages of the bytes appended since a file's last sync. A seed decides both. Neither ever invents bytes:
//! whatever is not what was written is zero, or not there (docs/durability.md, §4).
use crate::{
    Image, Rng,
    history::{File, FileId, History},
    image::Content,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

/// Whose promises a directory keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// ext4 with `data=ordered` and delayed allocation. Directory operations and growth are one ordered history; a
    /// cut keeps a prefix of it, at least up to the last commit. A file sync with anything new commits, and so does
    /// each directory sync; the kernel may have committed at any other moment too.
    Ext4,
    /// No more than POSIX says. A file sync saves that file's bytes and nothing else; a directory operation is
    /// durable once the directory is synced, and until then it may be lost though later ones survive, except that
    /// a name loses no operation while it keeps a later one.
    Posix,
}

/// Writeback happens in pages.
const PAGE_BYTES: usize = 4096;
/// Preallocated files grow by this much at a time, and end in zeros.
const ALLOCATED_BYTES: usize = 64 << 10;
/// A page can be torn between sectors, a sector cannot.
const SECTOR_BYTES: usize = 512;

/// Extremes are where recovery goes wrong, so one cut in four loses all it may and one in four keeps all.
#[derive(Clone, Copy)]
enum Bias {
    Lose,
    Keep,
    Mix,
}

impl Bias {
    fn draw(rng: &mut Rng) -> Bias {
        [Bias::Lose, Bias::Keep, Bias::Mix, Bias::Mix][rng.below(4)]
    }
}

impl History {
    /// The directory right after `step`: what a killed process leaves.
    pub fn everything(&self, step: usize) -> Image {
        self.image(step, self.names_at(step), |_, file| {
            let written = file.written.at(step).expect("a named file exists");
            file.content.view(written, Vec::new()).padded(if file.preallocated { ALLOCATED_BYTES } else { 1 })
        })
    }

    /// One of the states that a power cut right after `step` may leave.
    pub fn power_loss(&self, step: usize, seed: u64) -> Image {
        let mut rng = Rng::of(seed, step as u64);
        let bias = Bias::draw(&mut rng);
        let (names, reached) = match self.rules {
            Rules::Ext4 => {
                let reached = self.journal_end(step, bias, &mut rng);
                (self.names_at(reached), reached)
            }
            Rules::Posix => (self.names_by_chance(step, bias, &mut rng), step),
        };
        let (bias, seed) = (Bias::draw(&mut rng), rng.next_u64());
        // A generator for each file, so that two names of one file agree on its contents.
        self.image(step, names, |id, file| {
            let mut rng = Rng::of(seed, id as u64);
            if file.preallocated {
                let unit = [1, PAGE_BYTES, ALLOCATED_BYTES][rng.below(3)];
                return survivor(file, step, step, bias, &mut rng).padded(unit);
            }
            survivor(file, step, reached, bias, &mut rng)
        })
    }

    fn image(
        &self,
        step: usize,
        names: BTreeMap<Arc<str>, FileId>,
        content: impl Fn(FileId, &File) -> Content,
    ) -> Image {
        let content = |id: FileId| self.files[id].punched_at(step, content(id, &self.files[id]));
        Image {
            made: self.made.is_some_and(|made| made <= step),
            files: self.reachable(names).into_iter().map(|(name, id)| (name, content(id))).collect(),
        }
    }

    /// Up to which step the journal got.
    fn journal_end(&self, step: usize, bias: Bias, rng: &mut Rng) -> usize {
        let (forced, last) = (self.last_commit(step), self.last_possible(step));
        match bias {
            Bias::Lose => forced,
            Bias::Keep => last,
            Bias::Mix => forced + rng.below(last - forced + 1),
        }
    }

    /// The names after a chosen subset of the directory operations since the last directory sync.
    fn names_by_chance(&self, step: usize, bias: Bias, rng: &mut Rng) -> BTreeMap<Arc<str>, FileId> {
        let synced = self.last_commit(step);
        let mut names = self.names_at(synced);
        let mut behind = BTreeSet::new(); // names that lost an operation lose all later ones
        let odds = 1 + rng.below(3);
        let first = self.changes.partition_point(|change| change.step <= synced);
        for change in self.changes[first..].iter().take_while(|change| change.step <= step) {
            let kept = match bias {
                Bias::Lose => false,
                Bias::Keep => true,
                Bias::Mix => rng.chance(odds, 4),
            };
            let possible = !change.entries.iter().any(|(name, _)| behind.contains(name));
            for (name, id) in &change.entries {
                match id {
                    _ if !(kept && possible) => drop(behind.insert(name)),
                    Some(id) => drop(names.insert(name.clone(), *id)),
                    None => drop(names.remove(name)),
                }
            }
        }
        names
    }
}

/// What a cut after `step` leaves of a file whose growth reached the disk up to step `reached`. A commit may have saved bytes
/// by the time it ended that it covered long before.
fn survivor(file: &File, step: usize, reached: usize, bias: Bias, rng: &mut Rng) -> Content {
    let written = file.written.at(reached).expect("a named file exists");
    let synced = file.synced.at(step).expect("a named file exists").min(written);
    let (bytes, zeros) = match bias {
        _ if synced == written => (written, Vec::new()),
        Bias::Lose => (synced, Vec::new()),
        Bias::Keep => (written, Vec::new()),
        Bias::Mix => {
            let bytes = size(file, synced, written, reached, rng);
            (bytes, missing(synced, bytes, rng))
        }
    };
    file.content.view(bytes, zeros)
}

/// A size between `synced` and `written`: a file grows by whole pages as they are written back, or to where it
/// ended when its last page was.
fn size(file: &File, synced: usize, written: usize, reached: usize, rng: &mut Rng) -> usize {
    match rng.below(4) {
        0 => synced,
        1 => down_to(PAGE_BYTES, synced + rng.below(written - synced + 1)).max(synced),
        2 => {
            let ends = file.written.until(reached);
            let first = ends.partition_point(|(_, end)| *end <= synced); // there is one: `written`
            ends[first + rng.below(ends.len() - first)].1
        }
        _ => written,
    }
}

/// Which of the bytes `synced..bytes` never reached the disk though the file's size did.
fn missing(synced: usize, bytes: usize, rng: &mut Rng) -> Vec<Range<usize>> {
    if synced == bytes {
        return Vec::new();
    }
    let mut zeros = Vec::new();
    match rng.below(4) {
        0 => {}
        1 => zeros.push(synced..bytes),
        // Torn: pages in order, the last of them up to some sector.
        2 => zeros.push(down_to(SECTOR_BYTES, synced + rng.below(bytes - synced)).max(synced)..bytes),
        // Pages out of order.
        _ => {
            let mut from = synced;
            while from < bytes {
                let to = (down_to(PAGE_BYTES, from) + PAGE_BYTES).min(bytes);
                if rng.chance(1, 2) {
                    zeros.push(from..to);
                }
                from = to;
            }
        }
    }
    zeros
}

fn down_to(unit: usize, bytes: usize) -> usize {
    bytes - bytes % unit
}
