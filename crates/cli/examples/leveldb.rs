//! The real LevelDB from a shell, for `make demo`: it writes a store, and later reads it back.
//!
//! ```text
//! leveldb version
//! leveldb put-files DIR    reads paths from stdin, stores each file's contents under its path
//! leveldb dump DIR         prints every pair in the format of `terrace dump --format hex`
//! ```
//! Loads the shared library at run time; no code of LevelDB is compiled in.
use anyhow::{Context, Result, bail};
use std::{
    fmt::Write as _,
    fs,
    io::{self, BufRead, BufWriter, Write},
    path::Path,
};
use terrace_peers::leveldb::{Compression, Library, OpenOptions};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let library = Library::load()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["version"] => {
            let (major, minor) = library.version();
            println!("{major}.{minor}");
            Ok(())
        }
        ["put-files", path] => put_files(library, path.as_ref()),
        ["dump", path] => dump(library, path.as_ref()),
        _ => bail!("usage: leveldb version | put-files DIR | dump DIR"),
    }
}

fn put_files(library: Library, path: &Path) -> Result<()> {
    let options = OpenOptions { create_if_missing: true, compression: Compression::Snappy, ..Default::default() };
    let store = library.open(path, &options)?;
    let mut count = 0u64;
    for name in io::stdin().lock().lines() {
        let name = name?;
        let content = fs::read(&name).with_context(|| name.clone())?;
        store.put(name.as_bytes(), &content, false)?;
        count += 1;
    }
    println!("{count}");
    Ok(())
}

fn dump(library: Library, path: &Path) -> Result<()> {
    let store = library.open(path, &OpenOptions { paranoid_checks: true, ..Default::default() })?;
    let mut out = BufWriter::new(io::stdout().lock());
    for (key, value) in store.forward()? {
        writeln!(out, "{}\t{}", hex(&key), hex(&value))?;
    }
    Ok(out.flush()?)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}
