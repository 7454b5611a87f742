//! Histories of writes and deletes that turn entries into garbage, scaled down to small sizes.
use super::Store;
use std::collections::{BTreeSet, VecDeque};

/// Writes a queue in which 100 entries are live at any time. Values have 100 B to 60 KiB, and most
/// are small.
fn queue(store: &mut Store) {
    let mut live = VecDeque::new();
    for n in 0..1500 {
        let part = store.rng.below(1000) as f64 / 1000.0;
        let key = format!("mail{n:08}");
        store.put(key.clone(), 100 + (60_000.0 * part.powi(6)) as usize);
        live.push_back(key);
        if live.len() > 100 {
            let oldest = live.pop_front().expect("many");
            store.delete(&oldest);
        }
    }
}

fn append_and_truncate(store: &mut Store) {
    let mut from = 0;
    for n in 0..5_000 {
        store.put(format!("log{n:08}"), 1000);
        if n % 1000 == 999 && n > 1500 {
            let to = n - 500;
            store.delete_all(&format!("log{from:08}"), &format!("log{to:08}"));
            from = to;
        }
    }
}

/// Writes many time series whose old entries expire. The time is at the end of the key, so expired
/// keys are in all parts of the key range.
fn time_series(store: &mut Store) {
    const SERIES: usize = 20;
    for minute in 0..400 {
        for series in 0..SERIES {
            store.put(format!("series{series:03}/{minute:06}"), 300);
        }
        if minute >= 50 && minute % 10 == 0 {
            for series in 0..SERIES {
                let [from, to] = [minute - 60, minute - 50].map(|minute: i32| minute.max(0));
                store.delete_all(&format!("series{series:03}/{from:06}"), &format!("series{series:03}/{to:06}"));
            }
        }
    }
}

fn prefixes(store: &mut Store) {
    let mut live = Vec::new();
    for n in 0..80 {
        let prefix = format!("{:04x}", store.rng.below(1 << 16));
        for key in 0..100 {
            store.put(format!("{prefix}/{n:04}/{key:04}"), 500 + key * 5);
        }
        live.push(format!("{prefix}/{n:04}"));
        if live.len() > 20 {
            let at = store.rng.below(live.len());
            let gone = live.swap_remove(at);
            store.delete_all(&format!("{gone}/"), &format!("{gone}0"));
        }
    }
}

fn expiry(store: &mut Store) {
    let mut due: BTreeSet<(usize, String)> = Default::default();
    for n in 0..6_000 {
        let key = format!("{:08x}", store.rng.below(1 << 30));
        store.put(key.clone(), 800);
        due.insert((n + 100 + store.rng.below(1500), key));
        while due.first().is_some_and(|(at, _)| *at <= n) {
            let (_, key) = due.pop_first().expect("there is one");
            store.delete(&key);
        }
    }
}

/// Overwrites large values with small ones.
fn shrinking(store: &mut Store) {
    for round in 0..6 {
        for n in 0..300 {
            store.put(format!("key{n:05}"), if round % 2 == 0 { 5000 } else { 20 });
        }
    }
}

pub fn overwriting(store: &mut Store) {
    for _ in 0..5_000 {
        let n = store.rng.below(2000);
        store.put(format!("key{n:05}"), 1000);
    }
}

/// Overwrites one counter of 500 B 10,000 times. Every hundredth time it also puts an entry of 100
/// B.
fn counters(store: &mut Store) {
    for n in 0..10_000_u32 {
        store.put("head".into(), 500);
        if n % 100 == 0 {
            store.put(format!("key{n:08}"), 100);
        }
    }
}

pub type History = (&'static str, fn(&mut Store));
pub const HISTORIES: &[History] = &[
    ("queue", queue),
    ("append and truncate", append_and_truncate),
    ("time series", time_series),
    ("prefixes", prefixes),
    ("expiry", expiry),
    ("shrinking", shrinking),
    ("overwriting", overwriting),
    ("counters", counters),
];
