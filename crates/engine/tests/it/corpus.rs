//! Runs the fuzz targets of `make fuzz` without a fuzzer, with four kinds of inputs:
//! - the seeds of a target,
//! - slightly damaged seeds,
//! - the corpus (`fuzz/corpus/TARGET`): inputs each of which reaches code that no other input
//!   reaches,
//! - inputs with which the target once failed (`fuzz/found/TARGET`).
#[path = "../../../../fuzz/src/lib.rs"]
pub mod fuzz;

use fuzz::TARGETS;
use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};
use terrace_sim::Rng;

/// The number of damaged variants of each seed.
const VARIANTS: u64 = 20;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a target with `input`. If the target panics, the failure names the input.
fn run(target: &str, input: &[u8], name: &str) {
    let outcome = catch_unwind(AssertUnwindSafe(|| fuzz::run(target, input)));
    outcome.unwrap_or_else(|_| panic!("target {target} fails on {name}: {}", input.escape_ascii()));
}

/// Returns `input` with some bytes changed, removed or duplicated.
fn varied(input: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len().max(1));
        match rng.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at.min(bytes.len())..),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << rng.below(8)),
        }
    }
    bytes
}

#[test]
fn seeds_and_their_variants_are_decoded_or_refused() {
    let seeds = fuzz::seeds::seeds(&repository().join("crates/format/tests/golden"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, seed) in seeds.iter().enumerate() {
        *counts.entry(seed.target).or_default() += 1;
        run(seed.target, &seed.bytes, &seed.name);
        for variant in 0..VARIANTS {
            let mut rng = Rng::of(number as u64, variant);
            run(seed.target, &varied(&seed.bytes, &mut rng), &format!("{} varied by {number}, {variant}", seed.name));
        }
    }
    for (target, _) in TARGETS {
        assert!(counts.get(target).is_some_and(|count| *count > 1), "{target} has no seeds: {counts:?}");
    }
}

/// Tests every input of the corpus. Each of them reaches code of its target that no other input
/// reaches, so this test runs all code paths that fuzzing has found.
#[test]
fn the_fuzzing_corpus_is_decoded_or_refused() {
    for (target, _) in TARGETS {
        let inputs = fuzz::corpus::read(&repository().join("fuzz/corpus").join(target)).expect("whole");
        assert!(!inputs.is_empty(), "{target} has no corpus");
        for (number, input) in inputs.iter().enumerate() {
            run(target, input, &format!("input {number} of fuzz/corpus/{target}"));
        }
    }
}

#[test]
fn inputs_that_once_failed_pass() {
    for (target, _) in TARGETS {
        let Ok(entries) = fs::read_dir(repository().join("fuzz/found").join(target)) else { continue };
        for path in entries.map(|entry| entry.expect("listed").path()) {
            run(target, &fs::read(&path).expect("read"), &path.display().to_string());
        }
    }
}

/// Tests that each target has a libFuzzer program, and that each such program has a target.
#[test]
fn every_target_has_its_program() {
    let programs = fs::read_dir(repository().join("fuzz/fuzz_targets")).expect("listed");
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.expect("listed").path().file_stem().map(|name| name.to_owned());
    let mut programs: Vec<_> =
        programs.map(|entry| name(entry).expect("a name").into_string().expect("text")).collect();
    programs.sort();
    assert_eq!(programs, TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}
