//! The workloads of the DeLSM paper. Each has three stages: write `num` keys, delete a share of
//! these keys, then write `num` keys again or read all keys. Each stage has its own row in the
//! results.
//!
//! The paper does not specify the order of keys, nor whether the third stage writes the same keys
//! as the first one. Here the first stage writes `num` distinct keys in a random order. The second
//! stage deletes a share of them in another random order. The third stage writes (or reads) all
//! `num` keys of the first stage, including the deleted ones, in a third random order. Background
//! work finishes before the next stage begins, so that the result of each stage includes the work
//! that it deferred.
use super::{
    Job, Stage,
    ops::Driver,
    rng::{Permutation, label},
    store::{Content, Store},
};
use crate::measure::{self, Outcome};
use anyhow::{Context, Result, ensure};

/// Names and descriptions of the workloads.
pub const LIST: [(&str, &str); 4] = [
    ("write-delete-write", "puts num keys, deletes half of them, puts num keys; three rows"),
    ("write-delete-write:", "the same with that percentage deleted, as in write-delete-write:30"),
    ("write-delete-read", "puts num keys, deletes half of them, reads all; three rows"),
    ("write-delete-read:", "the same with that percentage deleted"),
];

struct DeleteStage {
    workload: String,
    kind: StageKind,
    /// Percentage of the keys that the second stage deletes.
    share: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum StageKind {
    Write,
    Delete,
    Rewrite,
    Read,
}

impl StageKind {
    fn name(self) -> &'static str {
        match self {
            StageKind::Write => "write",
            StageKind::Delete => "delete",
            StageKind::Rewrite => "rewrite",
            StageKind::Read => "read",
        }
    }
}

/// Returns the stages of the workload called `name`, if this module has it. An invalid percentage
/// is an error.
pub fn stages(name: &str) -> Result<Option<Vec<Box<dyn Stage>>>> {
    let (base, share) = name.split_once(':').map_or((name, "50"), |(base, share)| (base, share));
    let last = match base {
        "write-delete-write" => StageKind::Rewrite,
        "write-delete-read" => StageKind::Read,
        _ => return Ok(None),
    };
    let share: u64 = share.parse().with_context(|| format!("workload {name}: the share is a percentage"))?;
    ensure!(share <= 100, "workload {name}: the share is a percentage");
    let part = |kind| Box::new(DeleteStage { workload: name.into(), kind, share }) as Box<dyn Stage>;
    Ok(Some([StageKind::Write, StageKind::Delete, last].map(part).into()))
}

impl DeleteStage {
    fn count(&self, job: &Job<'_>) -> u64 {
        let num = job.spec.num;
        if self.kind == StageKind::Delete { (u128::from(num) * u128::from(self.share) / 100) as u64 } else { num }
    }
}

impl Stage for DeleteStage {
    fn name(&self) -> String {
        format!("{}/{}", self.workload, self.kind.name())
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        if self.kind == StageKind::Write {
            store.fresh(Content::decimal(job.spec, job.spec.value_size)?)?;
        }
        store.set_threads(job.spec.threads);
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        self.count(job)
    }

    fn only_reads(&self) -> bool {
        self.kind == StageKind::Read
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        let (target, content, count) = (store.target(), &store.content, self.count(job));
        let order = Permutation::new(job.spec.num, job.seed ^ label(self.kind.name()));
        measure::run(job.plan(), progress, &|worker| {
            let mut driver = Driver::new(target, content, false);
            for index in share_of(count, worker.index as u64, job.spec.threads as u64) {
                let number = order.at(index);
                match self.kind {
                    StageKind::Write | StageKind::Rewrite => driver.put(worker, number)?,
                    StageKind::Delete => driver.delete(worker, number)?,
                    StageKind::Read => driver.get(worker, number)?,
                }
                if !worker.did(1) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Divides the range `0 .. count` among `threads` threads. Returns the part of the thread number
/// `thread`.
pub fn share_of(count: u64, thread: u64, threads: u64) -> std::ops::Range<u64> {
    let bound = |thread: u64| (u128::from(count) * u128::from(thread) / u128::from(threads)) as u64;
    bound(thread)..bound(thread + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shares() {
        let names =
            |name: &str| -> Vec<String> { stages(name).unwrap().unwrap().iter().map(|stage| stage.name()).collect() };
        assert_eq!(
            names("write-delete-write:30"),
            ["write-delete-write:30/write", "write-delete-write:30/delete", "write-delete-write:30/rewrite"]
        );
        assert_eq!(names("write-delete-read")[2], "write-delete-read/read");
        assert!(stages("write-delete").unwrap().is_none());
        for bad in ["write-delete-read:101", "write-delete-read:x", "write-delete-read:"] {
            assert!(stages(bad).err().unwrap().to_string().contains("percentage"), "{bad}");
        }
    }

    #[test]
    fn threads_share_the_work() {
        let parts: Vec<_> = (0..3).map(|thread| share_of(10, thread, 3)).collect();
        assert_eq!(parts, [0..3, 3..6, 6..10]);
    }
}
