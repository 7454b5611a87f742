//! Tests of `Db::when_durable`, with which an asynchronous task waits until writes are durable.
//! The returned future must resolve once these writes are durable, share a sync with other such
//! futures, and report failures.
use crate::common::kit;
use kit::{Place, TIGHT, options};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    task::{Context, Poll, Wake},
    thread::Thread,
    time::Duration,
};
use terrace::{Db, Durable, Error, WriteBatch, WriteOptions};
use terrace_sim::{Fault, FaultFs, Plan};
use terrace_storage::backends::files::fs::FileSystem;

/// A waker that counts its calls and wakes a waiting test.
#[derive(Default)]
struct Alarm {
    rung: AtomicUsize,
    waits: OnceLock<Thread>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Alarm>) {
        self.rung.fetch_add(1, Relaxed);
        self.waits.get().inspect(|thread| thread.unpark());
    }
}

fn poll(future: &mut Durable, alarm: &Arc<Alarm>) -> Poll<terrace::Result<()>> {
    Pin::new(future).poll(&mut Context::from_waker(&alarm.clone().into()))
}

#[test]
fn tasks_wait_for_durability_without_a_thread_and_share_a_sync() {
    let db = Place::any().open(&options(TIGHT), false).unwrap();
    let alarm = Arc::new(Alarm::default());
    alarm.waits.set(std::thread::current()).unwrap();
    for round in 1..20u64 {
        let last = db.write(WriteBatch::new(), WriteOptions::default()).unwrap() + 2;
        db.put("a", round.to_string()).unwrap();
        db.put("b", round.to_string()).unwrap();
        let mut future = db.when_durable(last).unwrap();
        while poll(&mut future, &alarm).is_pending() {
            std::thread::park_timeout(Duration::from_secs(10));
        }
        assert!(db.durable_sequence() >= last, "round {round}");
    }
    assert!(matches!(db.when_durable(u64::MAX), Err(Error::Invalid(_))), "not written yet");

    let db = Place::any().open(&options(TIGHT), true).unwrap();
    db.put("a", "1").unwrap();
    let mut futures: Vec<_> = (0..5).map(|_| db.when_durable(1).unwrap()).collect();
    let alarm = Arc::new(Alarm::default());
    assert!(futures.iter_mut().all(|future| poll(future, &alarm).is_pending() && poll(future, &alarm).is_pending()));
    futures.pop(); // a dropped future is not woken
    let log_syncs = || db.statistics().syncs.iter().find(|(kind, _)| *kind == "log").expect("a kind").1.count;
    let before = log_syncs();
    assert_eq!((db.step(0), db.step(0)), (Some("sync"), None), "all of them ask once");
    assert_eq!((alarm.rung.load(Relaxed), log_syncs() - before), (4, 1));
    assert!(futures.iter_mut().all(|future| matches!(poll(future, &alarm), Poll::Ready(Ok(())))));
}

/// A waker that drops the store when it is called, as a task may do when it ends.
struct Last(Mutex<Option<(Db, mpsc::Sender<()>)>>);

impl Wake for Last {
    fn wake(self: Arc<Last>) {
        if let Some((db, ended)) = self.0.lock().unwrap().take() {
            drop(db);
            ended.send(()).unwrap();
        }
    }
}

#[test]
fn a_waker_may_drop_the_store() {
    for fails in [false, true] {
        let fs = FaultFs::new(kit::anywhere(), Plan::never());
        let db = kit::open(&(Arc::new(fs.clone()) as Arc<dyn FileSystem>), &options(TIGHT), false).unwrap();
        db.put("a", "1").unwrap();
        if fails {
            fs.arm(Plan::from_then_on(0, Fault::Eio));
        }
        let (sender, ended) = mpsc::channel();
        let mut future = db.when_durable(1).unwrap();
        let waker = Arc::new(Last(Mutex::new(Some((db, sender))))).into();
        if Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending() {
            ended.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("fails: {fails}: STUCK in a waker"));
        }
    }
}

#[test]
fn tasks_get_failures_and_closes() {
    let fs = FaultFs::new(kit::anywhere(), Plan::never());
    let opened = || kit::open(&(Arc::new(fs.clone()) as Arc<dyn FileSystem>), &options(TIGHT), true).unwrap();
    let db = opened();
    db.put("a", "1").unwrap();
    let (mut future, alarm) = (db.when_durable(1).unwrap(), Arc::new(Alarm::default()));
    assert!(poll(&mut future, &alarm).is_pending());
    fs.arm(Plan::from_then_on(0, Fault::Eio));
    assert_eq!(db.step(0), Some("sync"));
    assert!(alarm.rung.load(Relaxed) > 0);
    let Poll::Ready(Err(error)) = poll(&mut future, &alarm) else { panic!("the sync has failed") };
    assert!(matches!(&error, Error::FailStopped(_)), "{error}");
    drop((db, future));

    fs.heal();
    let db = opened();
    let last = db.write(WriteBatch::new(), WriteOptions::default()).unwrap() + 1;
    db.put("b", "2").unwrap();
    let (mut future, alarm) = (db.when_durable(last).unwrap(), Arc::new(Alarm::default()));
    assert!(poll(&mut future, &alarm).is_pending());
    drop(db);
    assert!(alarm.rung.load(Relaxed) > 0);
    assert!(matches!(poll(&mut future, &alarm), Poll::Ready(Err(Error::Closed))));
}
