//! Fuzz targets. Each target decodes arbitrary bytes and asserts properties of the result.
//!
//! `make fuzz` runs the targets with libFuzzer. `crates/engine/tests/it/corpus.rs` includes this
//! file: every test run replays the seeds, the corpus and past failures.
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

/// A fuzz target. It panics if a result is wrong.
pub type Target = fn(&[u8]);

/// All targets by name. Each name is also the name of a program in `fuzz_targets`.
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

/// Runs target `name` on `input`.
pub fn run(name: &str, input: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of the list");
    target(input);
}
