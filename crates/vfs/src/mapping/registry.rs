//! The address ranges of all mappings of this process and the number of their unreadable pages, in
//! a form that a signal handler can use.
//!
//! A range is one atomic number, so the handler never sees the begin of one range with the end of
//! another. The ranges are in chunks that are never freed. Unused entries are reused.
use nix::libc;
use parking_lot::{Mutex, MutexGuard};
use std::{
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

/// The number of unreadable pages of mappings, and of failed syncs, since the process started. The
/// handler of SIGBUS increases the counter before it replaces a page, so that a thread that reads
/// the new page also reads the new number.
pub(super) static UNREADABLE: AtomicU64 = AtomicU64::new(0);

const CHUNK_RANGES: usize = 256;
/// The unit of addresses and lengths in a [`Packed`] range. The page size of every supported
/// processor is a multiple of it.
const UNIT: usize = 4096;
/// Maximum number of ranges in a registry. The kernel allows about 65,000, and the allocator and
/// threads need some of them.
const RANGES_MAX: usize = 16_384;
/// Number of bits for the length of a range in units: up to 1 TiB. The other 36 bits of a number
/// are for its begin: up to address 2^48.
const LENGTH_BITS: u32 = 28;

/// A range as one number: the begin in units, then the length in units. 0 is no range.
type Packed = AtomicU64;

struct Chunk {
    ranges: [Packed; CHUNK_RANGES],
    next: OnceLock<Box<Chunk>>,
}

impl Chunk {
    const fn new() -> Chunk {
        Chunk { ranges: [const { AtomicU64::new(0) }; CHUNK_RANGES], next: OnceLock::new() }
    }
}

/// A set of address ranges.
pub(crate) struct Registry {
    /// The head of the list of chunks. Its own ranges stay unused.
    chunks: Chunk,
    /// The unused entries. The handler does not take this lock. A child process does not wait for
    /// it longer than [`PATIENCE`], because a thread of the parent may have held it at the fork.
    /// The child then registers no ranges.
    unused: Mutex<Vec<&'static Packed>>,
    has_given_up: AtomicBool,
}

/// The mappings of files that are only read.
pub(super) static MAPPINGS: Registry = Registry::new();
/// The windows of WALs that are written through a mapping.
pub(crate) static WINDOWS: Registry = Registry::new();

const PATIENCE: Duration = Duration::from_secs(1);

/// The entry of one range in a registry.
pub(crate) struct Registration(&'static Registry, &'static Packed);

impl Registry {
    const fn new() -> Registry {
        Registry { chunks: Chunk::new(), unused: Mutex::new(Vec::new()), has_given_up: AtomicBool::new(false) }
    }

    /// Registers `bytes` mapped bytes at `address`. Returns `None` if the range does not fit into a
    /// number, if there are too many ranges, or if the registry is locked for too long.
    pub fn register(&'static self, address: usize, bytes: usize) -> Option<Registration> {
        let range = pack(address, bytes)?;
        let mut unused = self.lock()?;
        if unused.is_empty() {
            unused.extend(&self.add_chunk()?.ranges);
        }
        let entry = unused.pop()?;
        entry.store(range, Release);
        Some(Registration(self, entry))
    }

    /// Returns whether `address` is in a registered range. A signal handler may call this method:
    /// it takes no lock and allocates nothing.
    pub fn contains(&self, address: usize) -> bool {
        let mut chunk = Some(&self.chunks);
        while let Some(here) = chunk {
            if here.ranges.iter().any(|range| is_within(range.load(Acquire), address)) {
                return true;
            }
            chunk = here.next.get().map(|next| &**next);
        }
        false
    }

    fn lock(&'static self) -> Option<MutexGuard<'static, Vec<&'static Packed>>> {
        if self.has_given_up.load(Relaxed) {
            return None;
        }
        let unused = self.unused.try_lock_for(PATIENCE);
        self.has_given_up.store(unused.is_none(), Relaxed);
        unused
    }

    /// Appends a chunk to the list, unless there are [`RANGES_MAX`] ranges. The caller holds the
    /// lock of `unused`.
    fn add_chunk(&'static self) -> Option<&'static Chunk> {
        let (mut last, mut ranges) = (&self.chunks, 0);
        while let Some(next) = last.next.get() {
            (last, ranges) = (next, ranges + CHUNK_RANGES);
        }
        (ranges < RANGES_MAX).then(|| &**last.next.get_or_init(|| Box::new(Chunk::new())))
    }
}

/// Removes the range from the registry. A registration must be dropped before its range is
/// unmapped.
impl Drop for Registration {
    fn drop(&mut self) {
        let Registration(registry, entry) = self;
        entry.store(0, Release);
        if let Some(mut unused) = registry.lock() {
            unused.push(entry);
        }
    }
}

/// Returns the size of a page of memory in bytes.
pub(super) fn page_bytes() -> usize {
    // SAFETY: the call takes a constant and returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn pack(address: usize, bytes: usize) -> Option<u64> {
    let (begin, length) = ((address / UNIT) as u64, bytes.div_ceil(UNIT) as u64);
    let fits = begin >> (u64::BITS - LENGTH_BITS) == 0 && length >> LENGTH_BITS == 0;
    fits.then_some(begin << LENGTH_BITS | length)
}

fn is_within(range: u64, address: usize) -> bool {
    let (begin, length) = (range >> LENGTH_BITS, range & ((1 << LENGTH_BITS) - 1));
    (begin..begin + length).contains(&((address / UNIT) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_while_their_range_is_registered() {
        static REGISTRY: Registry = Registry::new();
        const BASE: usize = 1 << 40; // an address that no test maps
        let at = |number: usize| BASE + 3 * number * UNIT;
        let mut all: Vec<_> = (0..1000).map(|number| REGISTRY.register(at(number), UNIT + 1)).collect();
        assert!(all.iter().all(Option::is_some));
        let found = |number: usize| [0, UNIT, 2 * UNIT].map(|more| REGISTRY.contains(at(number) + more));
        assert!((0..1000).all(|number| found(number) == [true, true, false]));
        all.iter_mut().step_by(2).for_each(|entry| *entry = None);
        assert!((0..1000).all(|number| found(number)[0] == (number % 2 == 1)));
        drop(all);
        assert!(!(0..1000).any(|number| REGISTRY.contains(at(number))));
    }

    /// Threads register and remove ranges while another one searches, as the handler of SIGBUS
    /// does.
    #[test]
    fn a_search_finds_a_registered_range_while_others_come_and_go() {
        static REGISTRY: Registry = Registry::new();
        let lasting = REGISTRY.register(1 << 40, UNIT).unwrap();
        std::thread::scope(|scope| {
            for thread in 1..4 {
                scope.spawn(move || {
                    for number in 0..2000 {
                        let address = (1 << 40) + (thread * 10_000 + number) * UNIT;
                        let range = REGISTRY.register(address, UNIT).unwrap();
                        assert!(REGISTRY.contains(address));
                        drop(range);
                        assert!(!REGISTRY.contains(address));
                    }
                });
            }
            (0..2000).for_each(|_| assert!(REGISTRY.contains(1 << 40) && !REGISTRY.contains((1 << 40) - 1)));
        });
        drop(lasting);
        assert!(!REGISTRY.contains(1 << 40));
    }

    #[test]
    fn ranges_that_do_not_fit_are_not_registered() {
        assert_eq!(pack(1 << 48, 1), None);
        assert_eq!(pack(1 << 40, 1 << 40), None);
        let last = pack((1 << 48) - UNIT, UNIT).unwrap();
        assert!(is_within(last, (1 << 48) - 1) && !is_within(last, (1 << 48) - UNIT - 1));
        assert!(!is_within(0, 0));
    }
}
