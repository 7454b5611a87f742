#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| terrace_fuzz::run("range_tombstones", input));
