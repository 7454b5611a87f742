//! Tests the write amplification of the virtual SSD against theory.
//!
//! Under uniform random overwrites of all pages, the victim of garbage collection has the valid
//! fraction u = e^(−α(1−u)), and WA2 = 1/(1−u). This is exact for FIFO with many superblocks and
//! an upper bound for greedy (Desnoyers, *Analytic modeling of SSD write performance*, SYSTOR
//! 2012). α is the size of the flash, without open and reserved superblocks, divided by the size
//! of the data.
use terrace_device::Stream;
use terrace_device::ssd::{Cause, Collection, Counts, Ftl, GcFrontier, Profile};

/// 256 MiB in 4096 superblocks of 16 pages, plus over-provisioning. With so many superblocks the
/// unused part of the open ones is negligible.
fn profile(over_provisioning: f64, collection: Collection) -> Profile {
    Profile {
        capacity_bytes: CAPACITY,
        pages_per_block: 16,
        channels: 1,
        over_provisioning,
        collection,
        ..Profile::default()
    }
}

/// 2 GiB in 2048 superblocks of 256 pages. The superblocks are large because the valid fraction of
/// small ones varies at random. The policy greedy would then have less write amplification than
/// theory predicts.
fn coarse(over_provisioning: f64, collection: Collection) -> Profile {
    Profile { capacity_bytes: 2 << 30, pages_per_block: 256, ..profile(over_provisioning, collection) }
}

const CAPACITY: u64 = 256 << 20;

/// Returns the theoretical WA2 of uniform overwrites with α times as much flash as data.
fn theory(alpha: f64) -> f64 {
    // The equation has two fixed points, and one of them is 1. From a start below 1 the iteration
    // converges to the smaller one.
    let u = (0..10_000).fold(0.5, |u: f64, _| (-alpha * (1.0 - u)).exp());
    1.0 / (1.0 - u)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(x ^ (x >> 31)) * u128::from(end)) >> 64) as u64
    }
}

/// Fills the drive below page `end` and overwrites it uniformly until WA2 is steady. Then makes
/// the same count of overwriting passes again, and returns the counters of this second part only.
fn uniform(ftl: &mut Ftl, end: u64, passes: u64) -> Counts {
    let mut random = Random(1);
    (0..end).for_each(|page| ftl.write(page, Stream(0)).unwrap());
    let mut pass = || {
        let before = ftl.counts().clone();
        (0..passes * end).for_each(|_| ftl.write(random.below(end), Stream(0)).unwrap());
        ftl.counts().since(&before)
    };
    pass();
    let counts = pass();
    ftl.check().unwrap();
    counts
}

/// Returns the fraction by which `measured` exceeds `expected`.
fn above(measured: f64, expected: f64) -> f64 {
    measured / expected - 1.0
}

#[test]
fn sequential_overwrites_cost_nothing() {
    for collection in [Collection::Greedy, Collection::Fifo, Collection::CostBenefit, Collection::Choices(4)] {
        let mut ftl = Ftl::new(profile(0.07, collection)).unwrap();
        for _ in 0..4 {
            (0..ftl.pages()).for_each(|page| ftl.write(page, Stream(0)).unwrap());
        }
        let counts = ftl.counts();
        assert_eq!(counts.host_bytes, 4 * CAPACITY);
        println!("{collection:?}: {:.4}", counts.wa2().unwrap());
        if collection == Collection::Choices(4) {
            // WA2 may slightly exceed 1: a random sample of four superblocks may contain no
            // superblock without valid pages.
            assert!(counts.wa2().unwrap() < 1.01, "{counts:?}");
        } else {
            assert_eq!(counts.nand_bytes(), counts.host_bytes, "{collection:?}");
        }
        assert!(counts.erases > 3 * 4096 - 400, "{collection:?}");
        ftl.check().unwrap();
    }
}

#[test]
fn fifo_collection_costs_what_theory_says() {
    for over_provisioning in [0.07, 0.15, 0.28] {
        let profile = profile(over_provisioning, Collection::Fifo);
        let expected = theory(profile.alpha());
        let mut ftl = Ftl::new(profile).unwrap();
        let pages = ftl.pages();
        let wa2 = uniform(&mut ftl, pages, 8).wa2().unwrap();
        println!("{over_provisioning}: {wa2:.3}, theory {expected:.3}, {:+.2} %", 100.0 * above(wa2, expected));
        assert!(above(wa2, expected).abs() < 0.01, "{over_provisioning}: {wa2} is not {expected}");
    }
}

#[test]
fn greedy_collection_costs_a_little_less_than_theory_says() {
    for over_provisioning in [0.07, 0.15, 0.28] {
        let profile = coarse(over_provisioning, Collection::Greedy);
        let expected = theory(profile.alpha());
        let mut ftl = Ftl::new(profile).unwrap();
        let pages = ftl.pages();
        let wa2 = uniform(&mut ftl, pages, 3).wa2().unwrap();
        println!("{over_provisioning}: {wa2:.3}, theory {expected:.3}, {:+.2} %", 100.0 * above(wa2, expected));
        assert!(
            (-0.05..0.0).contains(&above(wa2, expected)),
            "{over_provisioning}: {wa2} is not a little less than {expected}"
        );
    }
}

#[test]
fn trimmed_space_is_over_provisioning() {
    let profile = profile(0.07, Collection::Fifo);
    let mut ftl = Ftl::new(profile.clone()).unwrap();
    let pages = ftl.pages();
    let full = uniform(&mut ftl, pages, 3).wa2().unwrap();
    for share in [4, 2] {
        let kept = pages - pages / share;
        ftl.trim(kept..pages).unwrap();
        let wa2 = uniform(&mut ftl, kept, 6).wa2().unwrap();
        let expected = theory(profile.alpha() * pages as f64 / kept as f64);
        println!("1/{share} trimmed: {wa2:.3}, theory {expected:.3}, full {full:.3}");
        assert!(above(wa2, expected).abs() < 0.01, "1/{share} trimmed: {wa2} is not {expected}, full {full}");
    }
    assert_eq!(ftl.counts().trimmed_bytes, CAPACITY / 2, "what was trimmed is not trimmed twice");
}

/// 256 MiB in 512 superblocks of 128 pages, 15 % over-provisioning.
fn medium(collection: Collection) -> Profile {
    Profile { pages_per_block: 128, ..profile(0.15, collection) }
}

/// Directs nine tenths of the writes to one tenth of the pages. Makes two passes over the drive
/// and returns the WA2 of the second.
fn hot_and_cold(profile: Profile, cold: Stream) -> f64 {
    let mut ftl = Ftl::new(Profile { streams: 2, ..profile }).unwrap();
    let (pages, mut random) = (ftl.pages(), Random(2));
    let hot = pages / 10;
    (0..pages).for_each(|page| ftl.write(page, if page < hot { Stream(0) } else { cold }).unwrap());
    let mut pass = || {
        let before = ftl.counts().clone();
        for _ in 0..6 * pages {
            let (page, stream) = match random.below(10) {
                0 => (hot + random.below(pages - hot), cold),
                _ => (random.below(hot), Stream(0)),
            };
            ftl.write(page, stream).unwrap();
        }
        ftl.counts().since(&before).wa2().unwrap()
    };
    pass();
    pass()
}

#[test]
fn separating_hot_and_cold_costs_less() {
    let base = Profile { gc_frontier: GcFrontier::PerStream, ..medium(Collection::Greedy) };
    let (mixed, apart) = (hot_and_cold(base.clone(), Stream(0)), hot_and_cold(base.clone(), Stream(1)));
    let no_frontier = hot_and_cold(Profile { gc_frontier: GcFrontier::Shared, ..base }, Stream(0));
    println!("all in one {no_frontier:.3}, collected pages apart {mixed:.3}, streams apart {apart:.3}");
    assert!(apart < 0.9 * mixed, "apart {apart}, mixed {mixed}");
    assert!(mixed < 0.95 * no_frontier, "with a frontier for collected pages {mixed}, without {no_frontier}");
}

#[test]
fn cost_benefit_beats_greedy_on_hot_and_cold_pages() {
    let with = |collection| hot_and_cold(medium(collection), Stream(0));
    let (greedy, aged) = (with(Collection::Greedy), with(Collection::CostBenefit));
    println!("greedy {greedy:.3}, cost-benefit {aged:.3}");
    assert!(aged < 0.8 * greedy, "cost-benefit {aged}, greedy {greedy}");
}

#[test]
fn larger_samples_approach_greedy() {
    let with = |collection| {
        let mut ftl = Ftl::new(medium(collection)).unwrap();
        let pages = ftl.pages();
        uniform(&mut ftl, pages, 6).wa2().unwrap()
    };
    let [one, two, ten] = [1, 2, 10].map(|choices| with(Collection::Choices(choices)));
    let greedy = with(Collection::Greedy);
    println!("one choice {one:.3}, two {two:.3}, ten {ten:.3}, greedy {greedy:.3}");
    assert!(one > two && two > ten && ten > greedy, "one {one}, two {two}, ten {ten}, greedy {greedy}");
    assert!(above(ten, greedy) < 0.05, "ten {ten}, greedy {greedy}");
}

#[test]
fn wear_levelling_keeps_wear_even_and_costs_what_it_counts() {
    let spread = |wear_spread_max| {
        let mut ftl = Ftl::new(Profile { wear_spread_max, ..profile(0.15, Collection::Greedy) }).unwrap();
        let (pages, mut random) = (ftl.pages(), Random(3));
        (0..pages).for_each(|page| ftl.write(page, Stream(0)).unwrap());
        (0..20 * pages).for_each(|_| ftl.write(random.below(pages / 10), Stream(0)).unwrap());
        ftl.check().unwrap();
        let (least, most) = (ftl.erases().min().unwrap(), ftl.erases().max().unwrap());
        (most - least, ftl.counts().nand(Cause::Wear))
    };
    let (uneven, nothing) = spread(None);
    let (even, moved) = spread(Some(8));
    println!("erases apart: {uneven} without wear levelling, {even} with it, which moved {moved} bytes");
    assert_eq!(nothing, 0);
    assert!(uneven > 50, "{uneven}");
    assert!(even <= 8 + 4, "{even}");
    assert!(moved > 0 && moved < 20 * CAPACITY / 4, "{moved}");
}
