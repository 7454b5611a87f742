//! Creates the small stores that later versions must read (`tests/it/compat.rs`):
//!
//! ```sh
//! cargo run -p terrace --example golden -- crates/engine/tests/stores/VERSION
//! ```
#[path = "../tests/it/common/golden.rs"]
mod golden;

use std::path::PathBuf;

fn main() -> terrace::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: golden DIRECTORY");
        std::process::exit(2);
    };
    for store in golden::STORES {
        let path = folder.join(store.name);
        let pairs = store.make(&path)?.len();
        std::fs::remove_file(path.join("LOCK")).expect("every store has one");
        println!("{}: {pairs} pairs", path.display());
    }
    Ok(())
}
