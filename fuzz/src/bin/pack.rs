//! `pack FOLDER FILE BYTES`: packs the inputs in FOLDER into FILE. It takes the shortest inputs
//! first, and as many as fit into BYTES.
use libfuzzer_sys as _; // links the coverage runtime that instrumented code calls
use std::{env, fs};
use terrace_fuzz::corpus;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, file, bytes_max] = &arguments[..] else { panic!("usage: pack FOLDER FILE BYTES") };
    let bytes_max: usize = bytes_max.parse().expect("a number");
    let entries = fs::read_dir(folder).expect("a folder");
    let mut inputs: Vec<Vec<u8>> =
        entries.map(|entry| fs::read(entry.expect("listed").path()).expect("read")).collect();
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let mut packed = Vec::new();
    for input in &inputs {
        if packed.len() + 4 + input.len() > bytes_max {
            break;
        }
        packed.extend((input.len() as u32).to_le_bytes());
        packed.extend(input);
    }
    fs::write(file, packed).expect("written");
    println!("{} of {} inputs kept", corpus::read(file.as_ref()).expect("whole").len(), inputs.len());
}
