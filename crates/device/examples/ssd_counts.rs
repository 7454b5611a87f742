//! Counts the instructions, allocations and system calls that a page write to a virtual drive
//! without data costs. `cargo xtask counts` runs this program under callgrind.
//!
//! `ssd_counts PROFILE KIND` prints the number of pages, allocations and system calls. Callgrind
//! counts the instructions of [`measured`], including those of garbage collection.
#[path = "../../engine/tests/it/common/counting.rs"]
mod counting;

use std::{env, hint::black_box};
use terrace_device::ssd::{Ftl, PageWrite, Profile};
use terrace_device::{Result, Stream};

const CAPACITY: u64 = 512 << 20;

/// Maps a write to its page.
type Kind = fn(write: u64, pages: u64) -> u64;

const KINDS: [(&str, Kind); 2] = [("sequential", |write, pages| write % pages), ("random", scattered)];

fn scattered(write: u64, pages: u64) -> u64 {
    let x = (write + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x >> 33) % pages
}

/// Writes the measured pages. Callgrind counts the instructions of this function by its name.
#[inline(never)]
fn measured(ftl: &mut Ftl, page_of: Kind, writes: std::ops::Range<u64>) -> Result<u64> {
    let pages = ftl.pages();
    for write in writes.clone() {
        // Four slots of eight, if the controller compresses.
        let page = PageWrite { page: page_of(write, pages), stream: Stream(0), host_bytes: 4096, slots: 4 };
        ftl.write_page(black_box(page))?;
    }
    Ok(writes.end - writes.start)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
    if arguments == ["kinds"] {
        println!("{}", names.join(" "));
        return Ok(());
    }
    let profile = arguments.first().and_then(|name| Profile::named(name));
    let kind = arguments.get(1).and_then(|name| KINDS.iter().find(|(kind, _)| kind == name));
    let (Some(profile), Some((_, page_of))) = (profile, kind) else {
        eprintln!("usage: ssd_counts kinds | ssd_counts PROFILE {}", names.join("|"));
        std::process::exit(2);
    };
    let mut ftl = Ftl::new(Profile { capacity_bytes: CAPACITY, ..profile })?;
    let pages = ftl.pages();
    // Fill the drive first. Until every superblock is used, garbage collection has nothing to do.
    (0..3 * pages).try_for_each(|write| ftl.write(page_of(write, pages), Stream(0)))?;
    let before = counting::of_process();
    let writes = measured(&mut ftl, *page_of, 3 * pages..4 * pages)?;
    println!("{writes} {} 0", counting::of_process() - before);
    Ok(())
}
