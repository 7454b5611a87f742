//! Workloads that write files or devices without an engine, to measure the device and the file
//! system alone. They run with the engine `null`, which does nothing. There are `num` writes of
//! `value_size` bytes each. The user bytes are the bytes of these writes.
//!
//! `bare:sequential` and `bare:random` write one file with direct I/O. With the engine
//! `null:device` they write the device itself. `bare:sequential` writes in order. `bare:random`
//! overwrites the same data at random positions. `bare:frames` appends entries as a value log
//! would: each entry has one frame and one write, and nothing is stored in memory. Its speed is an
//! upper bound for a store that writes each value once. `files:async`, `files:direct` and
//! `files:sync` write one file per entry (NobLSM, Figure 2a).
use super::{Job, Stage, store::Store};
use crate::measure::{self, Kind, Outcome, ThreadPlan};
use anyhow::{Context, Result, ensure};
use nix::fcntl::OFlag;
use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::PathBuf,
};
use terrace_format::{Codec, SeqNo, value_log::Framer};

/// Names and descriptions of the workloads.
pub const LIST: [(&str, &str); 6] = [
    ("bare:sequential", "no engine: writes num blocks of value-size bytes in order to one file, with direct I/O"),
    ("bare:random", "no engine: overwrites these blocks in random order"),
    (
        "bare:frames",
        "no engine: appends num entries with random keys to one file, as frames of a value log, one write each",
    ),
    ("files:async", "no engine: writes num files of value-size bytes"),
    ("files:direct", "the same with direct I/O"),
    ("files:sync", "the same, each synced"),
];

/// Block size in bytes. With direct I/O, each write consists of whole blocks, and its memory is
/// aligned to a block.
const BLOCK: usize = 4096;

/// One of the workloads of this module.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    name: &'static str,
    kind: BareKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BareKind {
    Sequential,
    Random,
    Frames,
    Files { direct: bool, sync: bool },
}

/// Returns the stage of the workload called `name`, if this module has it.
pub fn stage(name: &str) -> Option<Bare> {
    let (name, _) = LIST.into_iter().find(|(known, _)| *known == name)?;
    let kind = match name {
        "bare:sequential" => BareKind::Sequential,
        "bare:random" => BareKind::Random,
        "bare:frames" => BareKind::Frames,
        name => BareKind::Files { direct: name == "files:direct", sync: name == "files:sync" },
    };
    Some(Bare { name, kind })
}

/// A buffer whose memory is aligned to a block, as direct I/O requires.
struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    fn new(len: usize) -> AlignedBuffer {
        let bytes: Vec<u8> = (0..len + BLOCK).map(|at| (at as u64).wrapping_mul(0x9E37_79B9) as u8).collect();
        let start = bytes.as_ptr().align_offset(BLOCK);
        AlignedBuffer { bytes, start, len }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl Bare {
    /// Returns the path of the file or device that a write changes. A write with a number has its
    /// own file. All other writes share one file, or they change the device.
    fn path(store: &Store<'_>, number: Option<u64>) -> PathBuf {
        match number {
            Some(number) => store.dir().join(format!("{number:06}.ldb")),
            None if store.is_in_file_system() => store.dir().join("bare"),
            None => store.dir().into(),
        }
    }

    fn open(store: &Store<'_>, number: Option<u64>, direct: bool) -> Result<File> {
        let path = Bare::path(store, number);
        let flags = if direct { OFlag::O_DIRECT.bits() } else { 0 };
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(&path);
        file.with_context(|| path.display().to_string())
    }
}

impl Stage for Bare {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        let size = job.spec.value_size;
        let fits = size > 0 && (self.kind == BareKind::Frames || size.is_multiple_of(BLOCK));
        ensure!(fits, "{}: value size {size} is not a multiple of {BLOCK}", self.name);
        ensure!(job.spec.threads == 1, "{} supports only one thread", self.name);
        let (path, bytes) = (Bare::path(store, None), job.spec.num * size as u64);
        if !store.is_in_file_system() {
            ensure!(
                matches!(self.kind, BareKind::Sequential | BareKind::Random),
                "{}: a device has no files",
                self.name
            );
            let there = File::open(&path).and_then(|mut device| device.seek(SeekFrom::End(0)));
            let there = there.with_context(|| path.display().to_string())?;
            ensure!(there >= bytes, "{}: {} has {there} bytes, not {bytes}", self.name, path.display());
        } else if self.kind == BareKind::Random {
            let whole = fs::metadata(path).is_ok_and(|it| it.len() == bytes);
            ensure!(whole, "bare:random needs bare:sequential before it");
        }
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        job.spec.num
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        let (store, piece, num) = (&*store, AlignedBuffer::new(job.spec.value_size), job.spec.num);
        measure::run(ThreadPlan { foreground: 1, ..job.plan() }, progress, &|worker| {
            let mut rng = job.rng(0);
            let one = match self.kind {
                BareKind::Files { .. } => None,
                BareKind::Frames => Some(Bare::open(store, None, false)?),
                _ => Some(Bare::open(store, None, true)?),
            };
            let (mut framer, mut frame) = (Framer::new(1, Codec::None, 1, 0), Vec::new());
            for number in 0..num {
                let place = if self.kind == BareKind::Random { rng.below(num) } else { number };
                worker.timed(Kind::Put, || match (&one, self.kind) {
                    (Some(file), BareKind::Frames) => {
                        let key = format!("{:016}", rng.below(num));
                        frame.clear();
                        framer.frame_put(key.as_bytes(), SeqNo(number + 1), piece.get(), &mut frame);
                        (&mut &*file).write_all(&frame)
                    }
                    (Some(file), _) => file.write_all_at(piece.get(), place * piece.len as u64),
                    (None, BareKind::Files { direct, sync }) => {
                        let file = Bare::open(store, Some(number), direct).map_err(std::io::Error::other)?;
                        file.write_all_at(piece.get(), 0)?;
                        if sync { file.sync_all() } else { Ok(()) }
                    }
                    (None, _) => unreachable!("all other kinds have a file"),
                })?;
                let key_bytes = if self.kind == BareKind::Frames { 16 } else { 0 };
                worker.tally.written_bytes += piece.len as u64 + key_bytes;
                if !worker.did(1) {
                    break;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_to_a_block() {
        for len in [4096, 65536] {
            let piece = AlignedBuffer::new(len);
            assert_eq!((piece.get().as_ptr() as usize % BLOCK, piece.get().len()), (0, len));
        }
        assert_eq!(stage("files:direct").unwrap().kind, BareKind::Files { direct: true, sync: false });
        assert_eq!(stage("bare:frames").unwrap().kind, BareKind::Frames);
        assert!(stage("files").is_none());
    }
}
