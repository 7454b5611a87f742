//! Tests the flash translation layer (FTL) of the virtual SSD against a naive model, which keeps
//! lists of pages and searches all of them in each step.
use proptest::{collection::vec, prelude::*, test_runner::TestCaseError};
use terrace_device::Stream;
use terrace_device::ssd::{Cause, Collection, Ftl, GcFrontier, PageWrite, Profile};

const PAGE: u64 = 4096;
const PAGES: u64 = 96;

#[derive(Clone, Debug)]
enum Step {
    Write { page: u64, stream: u8, host_bytes: u32, slots: u32 },
    Trim { begin: u64, len: u64 },
    Flush,
}

/// A superblock of the model drive. For each programmed slot it has the page that was written
/// there, or `None` after the page was overwritten or trimmed.
#[derive(Clone, Default)]
struct Block {
    slots: Vec<Option<u64>>,
    erases: u32,
    stream: u8,
    is_open: bool,
    is_free: bool,
    /// The drive's number of host writes when the valid pages last changed.
    changed_at: u64,
    /// Step in which the superblock got its present number of valid slots, or was closed.
    valid_since: u64,
    closed_at: u64,
}

/// The naive model of a drive. It has no tables and finds a page by searching all superblocks.
struct Naive {
    profile: Profile,
    slots_per_block: usize,
    slot_bytes: u64,
    blocks: Vec<Block>,
    open: Vec<Option<usize>>,
    causes: [u64; 4],
    host_bytes: u64,
    trimmed_bytes: u64,
    flushes: u64,
    now: u64,
    step: u64,
}

impl Naive {
    fn new(profile: Profile) -> Naive {
        let slot_bytes = if profile.compressed_pages.is_some() { 512 } else { PAGE };
        let streams = usize::from(profile.streams);
        let frontiers = match profile.gc_frontier {
            GcFrontier::Shared => streams,
            GcFrontier::Separate => streams + 1,
            GcFrontier::PerStream => 2 * streams,
        };
        let frontiers = frontiers + usize::from(profile.wear_spread_max.is_some());
        Naive {
            slots_per_block: (profile.superblock_bytes() / slot_bytes) as usize,
            slot_bytes,
            blocks: vec![Block { is_free: true, ..Block::default() }; profile.superblocks() as usize],
            open: vec![None; frontiers],
            causes: [0; 4],
            host_bytes: 0,
            trimmed_bytes: 0,
            flushes: 0,
            now: 0,
            step: 0,
            profile,
        }
    }

    fn valid(&self, block: usize) -> usize {
        self.blocks[block].slots.iter().flatten().count()
    }

    fn closed(&self) -> Vec<usize> {
        (0..self.blocks.len()).filter(|block| !self.blocks[*block].is_open && !self.blocks[*block].is_free).collect()
    }

    fn forget(&mut self, page: u64) {
        self.step += 1;
        for block in &mut self.blocks {
            if block.slots.contains(&Some(page)) {
                block.slots.iter_mut().filter(|slot| **slot == Some(page)).for_each(|slot| *slot = None);
                (block.changed_at, block.valid_since) = (self.now, self.step);
            }
        }
    }

    fn open_one(&mut self, frontier: usize) {
        let free = (0..self.blocks.len()).filter(|block| self.blocks[*block].is_free);
        let wear = |block: &usize| (self.blocks[*block].erases, *block);
        let is_of_wear = self.profile.wear_spread_max.is_some() && frontier + 1 == self.open.len();
        let chosen = if is_of_wear { free.max_by_key(wear) } else { free.min_by_key(wear) }.unwrap();
        let stream = (frontier % usize::from(self.profile.streams)) as u8;
        let block = &mut self.blocks[chosen];
        (block.is_free, block.is_open, block.stream) = (false, true, stream);
        self.open[frontier] = Some(chosen);
    }

    fn append(&mut self, frontier: usize, page: Option<u64>, slots: usize) {
        let number = self.open[frontier].unwrap();
        self.step += 1;
        let (now, step, full) = (self.now, self.step, self.slots_per_block);
        let block = &mut self.blocks[number];
        block.slots.extend(vec![page; slots]);
        if page.is_some() {
            block.changed_at = now;
        }
        if block.slots.len() == full {
            (block.is_open, block.valid_since, block.closed_at) = (false, step, step);
            self.open[frontier] = None;
        }
    }

    fn pad(&mut self, frontier: usize, slots: usize) {
        self.causes[3] += slots as u64 * self.slot_bytes;
        self.append(frontier, None, slots);
    }

    /// Closes the frontier's open superblock if the page does not fit.
    fn fit(&mut self, frontier: usize, slots: usize) {
        if let Some(number) = self.open[frontier] {
            let left = self.slots_per_block - self.blocks[number].slots.len();
            if left < slots {
                self.pad(frontier, left);
            }
        }
    }

    fn write(&mut self, page: u64, stream: u8, host_bytes: u64, slots: usize) {
        let frontier = usize::from(if stream < self.profile.streams { stream } else { 0 });
        self.now += 1;
        self.host_bytes += host_bytes;
        self.forget(page);
        loop {
            self.fit(frontier, slots);
            if self.open[frontier].is_some() {
                break;
            }
            let free = self.blocks.iter().filter(|block| block.is_free).count();
            if free > self.profile.reserved_superblocks as usize {
                self.open_one(frontier);
            } else {
                self.collect();
            }
        }
        self.append(frontier, Some(page), slots);
        let programmed = slots as u64 * self.slot_bytes;
        self.causes[0] += programmed * host_bytes / PAGE;
        self.causes[3] += programmed - programmed * host_bytes / PAGE;
    }

    fn collect(&mut self) {
        let closed = self.closed();
        let victim = match self.profile.collection {
            Collection::Fifo => closed.into_iter().min_by_key(|block| self.blocks[*block].closed_at),
            Collection::CostBenefit => {
                closed.into_iter().rev().max_by(|a, b| self.score(*a).total_cmp(&self.score(*b)))
            }
            _ => closed.into_iter().min_by_key(|block| (self.valid(*block), self.blocks[*block].valid_since)),
        };
        let (victim, streams) = (victim.unwrap(), usize::from(self.profile.streams));
        let stream = usize::from(self.blocks[victim].stream);
        let frontier = match self.profile.gc_frontier {
            GcFrontier::Shared => stream,
            GcFrontier::Separate => streams,
            GcFrontier::PerStream => streams + stream,
        };
        self.move_out(victim, frontier, 1);
        let Some(spread_max) = self.profile.wear_spread_max else { return };
        let erases: u32 = self.blocks.iter().map(|block| block.erases).sum();
        if erases.is_multiple_of(1.max(spread_max / 2)) {
            let most = self.blocks.iter().map(|block| block.erases).max().unwrap();
            let least = self.closed().into_iter().min_by_key(|block| (self.blocks[*block].erases, *block));
            if let Some(least) = least.filter(|least| most - self.blocks[*least].erases > spread_max) {
                self.move_out(least, self.open.len() - 1, 2);
            }
        }
    }

    fn score(&self, block: usize) -> f64 {
        let valid = self.valid(block) as f64 / self.slots_per_block as f64;
        (1.0 - valid) / (2.0 * valid) * (self.now - self.blocks[block].changed_at + 1) as f64
    }

    fn move_out(&mut self, number: usize, frontier: usize, cause: usize) {
        // The superblock is no longer closed, and a search for pages does not find it.
        let slots = std::mem::take(&mut self.blocks[number].slots);
        let mut pages: Vec<u64> = slots.iter().copied().flatten().collect();
        pages.dedup();
        for page in pages {
            let slots = slots.iter().filter(|slot| **slot == Some(page)).count();
            self.fit(frontier, slots);
            if self.open[frontier].is_none() {
                self.open_one(frontier);
            }
            self.append(frontier, Some(page), slots);
            self.causes[cause] += slots as u64 * self.slot_bytes;
        }
        self.blocks[number].is_free = true;
        self.blocks[number].erases += 1;
    }

    fn flush(&mut self) {
        if self.profile.power_loss_protection {
            return;
        }
        let unit = (u64::from(self.profile.pages_per_program) * PAGE / self.slot_bytes) as usize;
        for frontier in 0..usize::from(self.profile.streams) {
            if let Some(number) = self.open[frontier] {
                let written = self.blocks[number].slots.len();
                self.pad(frontier, written.next_multiple_of(unit) - written);
            }
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Write { page, stream, host_bytes, slots } => {
                let slots = if self.slot_bytes == PAGE { 1 } else { slots as usize };
                self.write(page, stream, host_bytes.into(), slots);
            }
            Step::Trim { begin, len } => {
                for page in begin..(begin + len).min(PAGES) {
                    self.trimmed_bytes += if self.is_mapped(page) { PAGE } else { 0 };
                    self.forget(page);
                }
            }
            Step::Flush => {
                self.flushes += 1;
                self.flush();
            }
        }
    }

    fn is_mapped(&self, page: u64) -> bool {
        self.blocks.iter().any(|block| block.slots.contains(&Some(page)))
    }
}

fn take(ftl: &mut Ftl, step: &Step) {
    match *step {
        Step::Write { page, stream, host_bytes, slots } => {
            ftl.write_page(PageWrite { page, stream: Stream(stream), host_bytes, slots }).unwrap();
        }
        Step::Trim { begin, len } => ftl.trim(begin..(begin + len).min(PAGES)).unwrap(),
        Step::Flush => ftl.flush(),
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    // Most writes use few pages, so that garbage and ages differ between superblocks.
    let page = prop_oneof![0..PAGES, 0..PAGES / 8];
    let part = prop_oneof![3 => Just(PAGE as u32), 1 => 0..=PAGE as u32];
    prop_oneof![
        20 => (page, 0u8..4, part, 1u32..=8)
            .prop_map(|(page, stream, host_bytes, slots)| Step::Write { page, stream, host_bytes, slots }),
        1 => (0..PAGES, 0u64..20).prop_map(|(begin, len)| Step::Trim { begin, len }),
        1 => Just(Step::Flush),
    ]
}

fn any_profile() -> impl Strategy<Value = Profile> {
    let collection = prop_oneof![Just(Collection::Greedy), Just(Collection::Fifo), Just(Collection::CostBenefit)];
    let gc_frontier = prop_oneof![Just(GcFrontier::Shared), Just(GcFrontier::Separate), Just(GcFrontier::PerStream)];
    let compressed_pages = prop_oneof![Just(None), Just(Some(4))];
    let wear = prop_oneof![Just(None), (0u32..6).prop_map(Some)];
    let policies = (collection, gc_frontier, compressed_pages, wear, any::<bool>());
    (policies, 1u8..=3, 1u32..=3, 0u32..3).prop_map(|(policies, streams, reserved_superblocks, program)| {
        let (collection, gc_frontier, compressed_pages, wear_spread_max, power_loss_protection) = policies;
        Profile {
            capacity_bytes: PAGES * PAGE,
            pages_per_block: 4,
            pages_per_program: 1 << program,
            channels: 2,
            over_provisioning: 1.0,
            reserved_superblocks,
            collection,
            gc_frontier,
            streams,
            wear_spread_max,
            power_loss_protection,
            compressed_pages,
            ..Profile::default()
        }
    })
}

fn same(ftl: &Ftl, naive: &Naive) -> Result<(), TestCaseError> {
    let counts = ftl.counts();
    prop_assert_eq!(Cause::ALL.map(|cause| counts.nand(cause)), naive.causes);
    prop_assert_eq!(counts.host_bytes, naive.host_bytes);
    prop_assert_eq!((counts.trimmed_bytes, counts.flushes), (naive.trimmed_bytes, naive.flushes));
    prop_assert!(ftl.erases().eq(naive.blocks.iter().map(|block| block.erases)), "erases");
    // Compares the count of valid slots of each superblock, because the choice of the next victim
    // depends on these counts.
    let valid = (0..naive.blocks.len()).map(|block| naive.valid(block) as u32);
    prop_assert!(ftl.valid_slots().eq(valid), "valid slots");
    prop_assert_eq!(ftl.mapped_bytes(), (0..PAGES).filter(|page| naive.is_mapped(*page)).count() as u64 * PAGE);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn does_what_a_naive_drive_does(profile in any_profile(), steps in vec(any_step(), 1..1500)) {
        let (mut ftl, mut naive) = (Ftl::new(profile.clone()).unwrap(), Naive::new(profile));
        for step in &steps {
            take(&mut ftl, step);
            naive.take(step);
            same(&ftl, &naive)?;
        }
        ftl.check().map_err(TestCaseError::fail)?;
    }

    #[test]
    fn the_same_seed_gives_the_same_drive(steps in vec(any_step(), 1..1500), choices in 1u8..6) {
        let profile = Profile { collection: Collection::Choices(choices), ..Naive::new(Profile::default()).profile };
        let profile = Profile { capacity_bytes: PAGES * PAGE, pages_per_block: 4, channels: 2, over_provisioning: 0.5, ..profile };
        let (mut ftl, mut again) = (Ftl::new(profile.clone()).unwrap(), Ftl::new(profile).unwrap());
        for step in &steps {
            take(&mut ftl, step);
            take(&mut again, step);
            ftl.check().map_err(TestCaseError::fail)?;
        }
        prop_assert_eq!(ftl.counts(), again.counts());
        prop_assert!(ftl.erases().eq(again.erases()));
    }
}
