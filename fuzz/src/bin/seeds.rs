//! `seeds FOLDER`: writes every seed and every input of `fuzz/corpus` to FOLDER/TARGET/NAME, where
//! libFuzzer reads them.
use libfuzzer_sys as _; // links the coverage runtime that instrumented code calls
use std::{env, fs, path::Path};
use terrace_fuzz::corpus;

fn main() {
    let folder = env::args().nth(1).expect("usage: seeds FOLDER");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let write = |target: &str, name: String, bytes: Vec<u8>| {
        let target = Path::new(&folder).join(target);
        fs::create_dir_all(&target).and_then(|()| fs::write(target.join(name), bytes)).expect("written");
    };
    for seed in terrace_fuzz::seeds::seeds(&here.join("../crates/format/tests/golden")) {
        write(seed.target, seed.name, seed.bytes);
    }
    for (target, _) in terrace_fuzz::TARGETS {
        let inputs = corpus::read(&here.join("corpus").join(target)).expect("whole");
        inputs.into_iter().enumerate().for_each(|(number, input)| write(target, format!("corpus-{number}"), input));
    }
}
