//! `seeds FOLDER`: writes every seed to FOLDER/TARGET/NAME, for libFuzzer.
use libfuzzer_sys as _; // what counts covered edges is compiled into everything, and calls what is in it
use std::{env, fs, path::Path};

fn main() {
    let folder = env::args().nth(1).expect("usage: seeds FOLDER");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/format/tests/golden");
    for seed in terrace_fuzz::seeds::seeds(&golden) {
        let target = Path::new(&folder).join(seed.target);
        fs::create_dir_all(&target).and_then(|()| fs::write(target.join(seed.name), seed.bytes)).expect("written");
    }
}
