//! Tests the simulated times of the virtual SSD against values that were computed by hand.
use std::time::Duration;
use terrace_device::Stream;
use terrace_device::ssd::{Ftl, GcFrontier, Latency, Profile};

const PAGE: u64 = 4096;

/// A drive on which reading a program unit from the cells takes 60 µs, and programming a unit of
/// four pages takes 500 µs. The transfer of a page takes 4.096 µs through the channel, and 4.096
/// µs through the interface.
fn profile() -> Profile {
    Profile {
        capacity_bytes: 256 << 20,
        pages_per_program: 4,
        channels: 4,
        latency: Some(Latency {
            read_us: 60,
            program_us: 500,
            erase_us: 3000,
            channel_bytes_per_s: 1_000_000_000,
            interface_bytes_per_s: 1_000_000_000,
            cache_bytes: 1 << 20,
            flush_us: 20,
        }),
        ..Profile::default()
    }
}

fn now(ftl: &Ftl) -> Duration {
    ftl.simulated_time().unwrap()
}

fn took(ftl: &mut Ftl, what: impl FnOnce(&mut Ftl)) -> f64 {
    let before = now(ftl);
    what(ftl);
    (now(ftl) - before).as_secs_f64() * 1e6
}

#[track_caller]
fn near(measured: f64, expected: f64) {
    assert!((measured / expected - 1.0).abs() < 0.02, "{measured} is not {expected}");
}

#[test]
fn writes_take_the_interface_until_the_cache_is_full_then_the_channels() {
    let mut ftl = Ftl::new(profile()).unwrap();
    let first = took(&mut ftl, |ftl| (0..256).for_each(|page| ftl.write(page, Stream(0)).unwrap()));
    near(first, 256.0 * 4.096);
    // At any time four units are programmed in parallel. This takes 500 µs plus their transfers.
    let rest = took(&mut ftl, |ftl| (256..16384).for_each(|page| ftl.write(page, Stream(0)).unwrap()));
    near(rest, 16128.0 / 16.0 * (500.0 + 4.0 * 4.096));
}

#[test]
fn a_flush_waits_for_the_cells_and_without_need_for_nothing() {
    for (power_loss_protection, expected) in [(false, 500.0 + 4.0 * 4.096 + 20.0), (true, 20.0)] {
        let mut ftl = Ftl::new(Profile { power_loss_protection, ..profile() }).unwrap();
        ftl.write(0, Stream(0)).unwrap();
        near(took(&mut ftl, Ftl::flush), expected);
        near(took(&mut ftl, Ftl::flush), 20.0);
    }
}

#[test]
fn reads_of_one_command_overlap_and_those_of_many_do_not() {
    let mut ftl = Ftl::new(profile()).unwrap();
    (0..64).for_each(|page| ftl.write(page, Stream(0)).unwrap());
    ftl.flush();
    near(took(&mut ftl, |ftl| assert_eq!(ftl.read(0..1).unwrap(), 1)), 60.0 + 2.0 * 4.096);
    // The 16 pages are one unit on each channel. The cells are read once, four pages pass through
    // each channel, and all 16 pages pass through the interface.
    near(took(&mut ftl, |ftl| assert_eq!(ftl.read(0..16).unwrap(), 16)), 60.0 + (4.0 + 16.0) * 4.096);
    near(
        took(&mut ftl, |ftl| (0..16).for_each(|page| assert_eq!(ftl.read(page..page + 1).unwrap(), 1))),
        16.0 * (60.0 + 2.0 * 4.096),
    );
    near(took(&mut ftl, |ftl| assert_eq!(ftl.read(1000..1001).unwrap(), 0)), 4.096);
}

#[test]
fn collection_takes_its_time_from_the_host() {
    let mut ftl = Ftl::new(Profile { gc_frontier: GcFrontier::Separate, ..profile() }).unwrap();
    let pages = ftl.pages();
    let mut page = 1;
    let mut scatter = |ftl: &mut Ftl| {
        page = 6_364_136_223_846_793_005_u64.wrapping_mul(page).wrapping_add(1);
        ftl.write((page >> 33) % pages, Stream(0)).unwrap();
    };
    (0..pages).for_each(|page| ftl.write(page, Stream(0)).unwrap());
    (0..2 * pages).for_each(|_| scatter(&mut ftl));
    let before = ftl.counts().clone();
    let microseconds = took(&mut ftl, |ftl| (0..pages).for_each(|_| scatter(ftl)));
    let counts = ftl.counts().since(&before);
    // All channels are always busy with programs, erases, and one read for each unit with valid
    // pages.
    let unit = 500.0 + 4.0 * 4.096;
    let programs = counts.nand_bytes() as f64 / (4 * PAGE) as f64 / 4.0 * unit;
    let moved = (counts.nand_bytes() - counts.host_bytes) as f64 / PAGE as f64;
    let reads_most = moved / 4.0 * (60.0 + 4.096);
    let reads_least = moved / 4.0 * (60.0 / 4.0 + 4.096);
    let erases = counts.erases as f64 * 3000.0;
    assert!(counts.wa2().unwrap() > 3.0);
    let (least, most) = (programs + erases + reads_least, programs + erases + reads_most);
    println!("WA2 {:.2}: {microseconds:.0} µs, reckoned {least:.0} to {most:.0}", counts.wa2().unwrap());
    assert!(microseconds > least && microseconds < 1.1 * most, "{microseconds} is not in {least} to {most}");
}
