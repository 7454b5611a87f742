//! A model check of the writer queue (`make loom`): the model checker Loom runs a few writers in
//! every order. If a writer is never woken, the check fails with a deadlock.
use super::group::{JoinResult, Queue, WriteRequest};
use crate::{Error, Result};
use loom::{model::Builder, sync::Arc, thread};
use terrace_format::{
    SeqNo,
    batch::{Batch, Op},
};

const PREEMPTIONS_MAX: usize = 3;

fn model(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(scene);
}

/// Writes one operation through the writer queue, as the write path does. If `early` is set, the
/// leader passes the leadership to the next writer before it completes its followers. Returns the
/// sequence number of the last operation in the write group.
fn write(queue: &Queue<u64>, early: bool, sync: bool) -> Result<SeqNo> {
    match queue.join(WriteRequest::Single(Op::Delete(b"k")), sync) {
        JoinResult::Done(outcome) => outcome,
        JoinResult::Leader(mut leader, request) => {
            let mut batch = match request {
                WriteRequest::Batch(batch) => batch,
                WriteRequest::Single(op) => {
                    let mut batch = Batch::new();
                    batch.add(op);
                    batch
                }
                WriteRequest::Conditional(write) => write.batch,
                WriteRequest::Exclusive => Batch::new(),
            };
            leader.collect_followers(&mut batch, sync, |_, _| Ok(true));
            let last = *leader.state() + u64::from(batch.len());
            *leader.state() = last;
            if early {
                leader.hand_over();
            }
            leader.complete(Ok(SeqNo(last)))
        }
    }
}

fn leader_state(queue: &Queue<u64>) -> u64 {
    let JoinResult::Leader(mut leader, _) = queue.join(WriteRequest::Exclusive, false) else {
        panic!("an exclusive request leads")
    };
    *leader.state()
}

/// Tests three concurrent writers. Each operation must be written once, and each writer must get
/// its result.
#[test]
fn every_write_is_committed_once_and_every_writer_gets_its_result() {
    model(|| {
        let queue = Arc::new(Queue::new(0));
        let others = [(true, false), (false, true)].map(|(early, sync)| {
            let queue = queue.clone();
            thread::spawn(move || write(&queue, early, sync).expect("written"))
        });
        let request = write(&queue, true, true).expect("written");
        let results = others.map(|other| other.join().expect("it does not panic"));
        assert!(results.iter().chain([&request]).all(|last| (1..=3).contains(&last.0)));
        assert_eq!((leader_state(&queue), queue.queue_len()), (3, 0));
    });
}

/// Tests a leader that is dropped without a call of `complete`. Its followers must get an error,
/// and another writer must get the leadership.
#[test]
fn a_leader_dropped_without_complete_leaves_no_writer_waiting() {
    model(|| {
        let queue = Arc::new(Queue::new(0));
        let JoinResult::Leader(mut leader, _) = queue.join(WriteRequest::Batch(Batch::new()), false) else {
            panic!("no other writer leads")
        };
        let other = {
            let queue = queue.clone();
            thread::spawn(move || write(&queue, true, false))
        };
        let mut batch = Batch::new();
        batch.delete(b"k");
        leader.collect_followers(&mut batch, false, |_, _| Ok(true));
        let joined = leader.followers() == 1;
        drop(leader);
        let results = other.join().expect("it does not panic");
        assert_eq!(matches!(results, Err(Error::Bug(_))), joined, "{results:?}");
        assert_eq!(leader_state(&queue), u64::from(!joined));
    });
}
