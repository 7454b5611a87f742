//! `leveldb_filterpolicy_t`: filters that C makes, and the Bloom filter.
#![expect(unsafe_code, reason = "C hands over functions to call with its state")]
use crate::memory;
use libc::{c_char, c_int, c_void};
use std::sync::Arc;
use terrace::{Bloom, FilterPolicy};

type Create = unsafe extern "C" fn(*mut c_void, *const *const u8, *const usize, c_int, *mut usize) -> *mut u8;
type MayMatch = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> u8;

/// `leveldb_filterpolicy_t`.
pub struct Filter {
    pub policy: Arc<dyn FilterPolicy>,
    /// What is left to call at the end, for a policy of C's.
    destructor: Option<(unsafe extern "C" fn(*mut c_void), *mut c_void)>,
}

/// The part that an open store keeps. As in LevelDB it must not be used once the handle is destroyed.
struct Foreign {
    state: *mut c_void,
    create: Create,
    may_match: MayMatch,
    name: String,
}

// SAFETY: as in LevelDB, its functions may be called from several threads at once: the header asks for it.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl FilterPolicy for Foreign {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        let starts: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lengths: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let count = c_int::try_from(keys.len()).expect("a table has less than 2 G keys");
        let mut length = 0;
        // SAFETY: the promises of `leveldb_filterpolicy_create`'s caller: the functions may be called, and the result is
        // `length` bytes from malloc, which are ours to free.
        unsafe {
            let filter = (self.create)(self.state, starts.as_ptr(), lengths.as_ptr(), count, &mut length);
            out.extend_from_slice(memory::bytes(filter, length));
            memory::free(filter);
        }
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        // SAFETY: as above.
        let answer = unsafe { (self.may_match)(self.state, key.as_ptr(), key.len(), filter.as_ptr(), filter.len()) };
        answer != 0
    }
}

/// # Safety
/// `name` returns a text that ends in a zero byte, `create_filter` as many bytes from malloc as it says. All may be called
/// with `state` until the destructor was, from several threads at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: unsafe extern "C" fn(*mut c_void),
    create_filter: Create,
    key_may_match: MayMatch,
    name: unsafe extern "C" fn(*mut c_void) -> *const c_char,
) -> Box<Filter> {
    // SAFETY: the caller's promise.
    let name = unsafe { memory::text(name(state).cast()) };
    let name = String::from_utf8_lossy(name).into_owned();
    let policy = Arc::new(Foreign { state, create: create_filter, may_match: key_may_match, name });
    Box::new(Filter { policy, destructor: Some((destructor, state)) })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Box<Filter> {
    let bits = u32::try_from(bits_per_key).unwrap_or(0);
    Box::new(Filter { policy: Arc::new(Bloom::new(bits)), destructor: None })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_destroy(filter: Option<Box<Filter>>) {
    if let Some((destructor, state)) = filter.and_then(|filter| filter.destructor) {
        // SAFETY: the promise of `leveldb_filterpolicy_create`'s caller.
        unsafe { destructor(state) };
    }
}
