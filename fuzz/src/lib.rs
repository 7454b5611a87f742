//! What the fuzzers do: each target decodes whatever bytes it is given, and requires what must hold of any answer.
//!
//! `make fuzz` runs each by libFuzzer; `crates/engine/tests/it/corpus.rs` includes this file and replays the seeds, what fuzzing has
//! found worth keeping, and inputs that once failed, in every test run.
#![forbid(unsafe_code)]

pub mod corpus;
#[path = "../../crates/engine/tests/it/common/damage.rs"]
mod damage;
mod decoders;
#[path = "../../crates/engine/tests/it/common/files.rs"]
mod files;
pub mod heal;
#[path = "../../crates/engine/tests/it/common/kit.rs"]
mod kit;
mod raw;
pub mod seeds;
mod stores;

/// A target: it panics where the answer is wrong.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its program in `fuzz_targets`.
pub const TARGETS: &[(&str, Target)] = &[
    ("batch", decoders::batch),
    ("block", decoders::block),
    ("compress", decoders::compress),
    ("edit", decoders::edit),
    ("filter", decoders::filter),
    ("key", decoders::key),
    ("log", decoders::log),
    ("marker", decoders::marker),
    ("options", decoders::options),
    ("pair", decoders::pair),
    ("range_tombstones", decoders::range_tombstones),
    ("raw", raw::raw),
    ("store", stores::store),
    ("table", stores::table),
    ("value_log", decoders::value_log),
];

/// Runs the target called `name` on `input`.
pub fn run(name: &str, input: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of the list");
    target(input);
}
