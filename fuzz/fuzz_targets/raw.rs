#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| terrace_fuzz::run("raw", input));
