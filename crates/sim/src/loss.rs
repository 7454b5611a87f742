//! The crash states that a power cut may leave of a recorded directory.
//!
//! Two things are uncertain after a power cut. The first is which directory operations reached the
//! disk ([`Rules`]). The second is which of the pages that were appended after a file's last sync
//! reached the disk. In this model a seed decides these two questions. The model never invents
//! bytes: each byte is as written, zero, or missing (docs/durability.md, §4).
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

/// The durability guarantees of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// ext4 with `data=ordered` and delayed allocation. Directory operations and file growth form
    /// one ordered history, and a power cut keeps a prefix of it. The prefix extends at least to
    /// the last journal commit. Every sync of a file with new metadata and every directory sync
    /// commits the journal. The kernel may also commit at any other moment.
    Ext4,
    /// Only the guarantees of POSIX. A file sync makes only that file's bytes durable. A directory
    /// operation is durable once the directory is synced. Before that sync, an operation may be
    /// lost although later operations survive. The only restriction concerns a single name: if one
    /// of its operations is lost, all later operations on that name are lost as well.
    Posix,
}

/// Unit of writeback, in bytes.
const PAGE_BYTES: usize = 4096;
/// Unit in which preallocated files grow, in bytes. The end of such a file is zeros.
const ALLOCATED_BYTES: usize = 64 << 10;
/// Sector size in bytes. A page can be torn between sectors. A sector is never torn.
const SECTOR_BYTES: usize = 512;

/// The bias of a power cut. Recovery bugs show at the extremes, so one of four power cuts loses as
/// much as possible and one of four loses nothing.
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
    /// Returns the directory as it was right after `step`. A killed process leaves this state if no
    /// power cut follows.
    pub fn state_after(&self, step: usize) -> Image {
        self.image(step, self.names_at(step), |_, file| {
            let written = file.written.at(step).expect("a named file exists");
            file.content.view(written, Vec::new()).padded(if file.preallocated { ALLOCATED_BYTES } else { 1 })
        })
    }

    /// Returns a crash state: the directory after a power cut right after `step`.
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
        // Each file has one random generator, so that all names of a file have the same contents.
        self.image(step, names, |id, file| {
            let mut rng = Rng::of(seed, id as u64);
            if file.preallocated {
                let unit = [1, PAGE_BYTES, ALLOCATED_BYTES][rng.below(3)];
                return surviving_content(file, step, step, bias, &mut rng).padded(unit);
            }
            surviving_content(file, step, reached, bias, &mut rng)
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

    /// Chooses the last step whose operations the journal has written to the disk before the power
    /// cut.
    fn journal_end(&self, step: usize, bias: Bias, rng: &mut Rng) -> usize {
        let (forced, last) = (self.last_commit(step), self.last_possible(step));
        match bias {
            Bias::Lose => forced,
            Bias::Keep => last,
            Bias::Mix => forced + rng.below(last - forced + 1),
        }
    }

    /// Returns the names after a power cut under POSIX rules: of the directory operations since the
    /// last directory sync, a random subset is applied.
    fn names_by_chance(&self, step: usize, bias: Bias, rng: &mut Rng) -> BTreeMap<Arc<str>, FileId> {
        let synced = self.last_commit(step);
        let mut names = self.names_at(synced);
        // If a name has lost one operation, it also loses all later operations.
        let mut truncated = BTreeSet::new();
        let odds = 1 + rng.below(3);
        let first = self.changes.partition_point(|change| change.step <= synced);
        for change in self.changes[first..].iter().take_while(|change| change.step <= step) {
            let kept = match bias {
                Bias::Lose => false,
                Bias::Keep => true,
                Bias::Mix => rng.chance(odds, 4),
            };
            let possible = !change.entries.iter().any(|(name, _)| truncated.contains(name));
            for (name, id) in &change.entries {
                match id {
                    _ if !(kept && possible) => drop(truncated.insert(name)),
                    Some(id) => drop(names.insert(name.clone(), *id)),
                    None => drop(names.remove(name)),
                }
            }
        }
        names
    }
}

/// Returns the content of a file after a power cut at `step`. `reached` is the last step whose
/// growth of the file is on disk. The synced length is the length at `step`, not the length at
/// `reached`, because a journal commit may make bytes durable long after the step that it covers.
fn surviving_content(file: &File, step: usize, reached: usize, bias: Bias, rng: &mut Rng) -> Content {
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

/// Chooses a file size between `synced` and `written`. While the kernel writes pages back, the
/// size grows by whole pages. When it writes the last page, the size grows to the end of the file.
fn size(file: &File, synced: usize, written: usize, reached: usize, rng: &mut Rng) -> usize {
    match rng.below(4) {
        0 => synced,
        1 => down_to(PAGE_BYTES, synced + rng.below(written - synced + 1)).max(synced),
        2 => {
            let ends = file.written.until(reached);
            // At least one append ends above `synced`: the last one, at `written`.
            let first = ends.partition_point(|(_, end)| *end <= synced);
            ends[first + rng.below(ends.len() - first)].1
        }
        _ => written,
    }
}

/// Chooses the bytes in `synced..bytes` that are missing on disk although the file's size includes
/// them.
fn missing(synced: usize, bytes: usize, rng: &mut Rng) -> Vec<Range<usize>> {
    if synced == bytes {
        return Vec::new();
    }
    let mut zeros = Vec::new();
    match rng.below(4) {
        0 => {}
        1 => zeros.push(synced..bytes),
        // Torn: pages reached the disk in order, the last one up to some sector.
        2 => zeros.push(down_to(SECTOR_BYTES, synced + rng.below(bytes - synced)).max(synced)..bytes),
        // Pages reached the disk out of order.
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
