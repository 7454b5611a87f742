//! The DeLSM paper's workloads, in three stages with a row each: write `num` keys, delete a share of them, then write
//! `num` keys again or read all.
//!
//! The paper says neither in which order keys come nor whether the second writes meet the same ones; here each stage takes
//! `num` distinct keys in a random order of its own, the last one all of them again. The stages settle between, so that
//! each answers for the work it leaves behind.
use super::{
    Job, Stage,
    ops::Hands,
    rng::{Permutation, label},
    store::{Content, Store},
};
use crate::measure::{self, Outcome};
use anyhow::{Context, Result, ensure};

/// Names and what they do.
pub const LIST: [(&str, &str); 4] = [
    ("write-delete-write", "puts num keys, deletes half of them, puts num keys; three rows"),
    ("write-delete-write:", "the same with that percentage deleted, as in write-delete-write:30"),
    ("write-delete-read", "puts num keys, deletes half of them, reads all; three rows"),
    ("write-delete-read:", "the same with that percentage deleted"),
];

struct Part {
    workload: String,
    act: Act,
    /// Of the keys that are deleted, in percent.
    share: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Act {
    Write,
    Delete,
    Rewrite,
    Read,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Act::Write => "write",
            Act::Delete => "delete",
            Act::Rewrite => "rewrite",
            Act::Read => "read",
        }
    }
}

/// The stages of `name`, if it is one of these; a wrong share is refused.
pub fn stages(name: &str) -> Result<Option<Vec<Box<dyn Stage>>>> {
    let (base, share) = name.split_once(':').map_or((name, "50"), |(base, share)| (base, share));
    let last = match base {
        "write-delete-write" => Act::Rewrite,
        "write-delete-read" => Act::Read,
        _ => return Ok(None),
    };
    let share: u64 = share.parse().with_context(|| format!("workload {name}: the share is a percentage"))?;
    ensure!(share <= 100, "workload {name}: the share is a percentage");
    let part = |act| Box::new(Part { workload: name.into(), act, share }) as Box<dyn Stage>;
    Ok(Some([Act::Write, Act::Delete, last].map(part).into()))
}

impl Part {
    fn count(&self, job: &Job<'_>) -> u64 {
        let num = job.spec.num;
        if self.act == Act::Delete { (u128::from(num) * u128::from(self.share) / 100) as u64 } else { num }
    }
}

impl Stage for Part {
    fn name(&self) -> String {
        format!("{}/{}", self.workload, self.act.name())
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        if self.act == Act::Write {
            store.fresh(Content::decimal(job.spec, job.spec.value_size)?)?;
        }
        store.set_threads(job.spec.threads);
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        self.count(job)
    }

    fn only_reads(&self) -> bool {
        self.act == Act::Read
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        let (target, content, count) = (store.target(), &store.content, self.count(job));
        let order = Permutation::new(job.spec.num, job.seed ^ label(self.act.name()));
        measure::run(job.plan(), progress, &|worker| {
            let mut hands = Hands::new(target, content, false);
            for index in share_of(count, worker.index as u64, job.spec.threads as u64) {
                let number = order.at(index);
                match self.act {
                    Act::Write | Act::Rewrite => hands.put(worker, number)?,
                    Act::Delete => hands.delete(worker, number)?,
                    Act::Read => hands.get(worker, number)?,
                }
                if !worker.did(1) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// The part of `0 .. count` that falls to one of the threads.
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
