//! The functions of `leveldb_filterpolicy_t`: filters that C functions define, and the Bloom
//! filter.
#![expect(unsafe_code, reason = "C passes callbacks and their state")]
use crate::memory;
use libc::{c_char, c_int, c_void};
use std::sync::Arc;
use terrace::{Bloom, FilterPolicy};

type Create = unsafe extern "C" fn(*mut c_void, *const *const u8, *const usize, c_int, *mut usize) -> *mut u8;
type MayMatch = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> u8;

/// The C handle `leveldb_filterpolicy_t`.
pub struct Filter {
    pub policy: Arc<dyn FilterPolicy>,
    /// The destructor and the state of a policy that is defined by C functions; `None` for the
    /// Bloom filter.
    destructor: Option<(unsafe extern "C" fn(*mut c_void), *mut c_void)>,
}

/// The part of a filter policy that an open store uses. As in LevelDB, the store must be closed
/// before the C program destroys the filter policy.
struct Foreign {
    state: *mut c_void,
    create: Create,
    may_match: MayMatch,
    name: String,
}

// SAFETY: as in LevelDB, the header requires functions that several threads may call at once.
unsafe impl Send for Foreign {}
// SAFETY: as in LevelDB, the header requires functions that several threads may call at once.
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
        // SAFETY: guaranteed by the caller of `leveldb_filterpolicy_create`: the functions may be
        // called, and the result has `length` bytes from malloc, which this function frees.
        unsafe {
            let filter = (self.create)(self.state, starts.as_ptr(), lengths.as_ptr(), count, &mut length);
            out.extend_from_slice(memory::bytes(filter, length));
            memory::free(filter);
        }
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        // SAFETY: guaranteed by the caller of `leveldb_filterpolicy_create`: the function may be
        // called.
        let answer = unsafe { (self.may_match)(self.state, key.as_ptr(), key.len(), filter.as_ptr(), filter.len()) };
        answer != 0
    }
}

/// # Safety
/// - `name` must return a zero-terminated string.
/// - `create_filter` must return memory from malloc and store its length through its last
///   parameter. The library frees the memory.
/// - Until the destructor has been called, it must be safe to call each of these functions with
///   `state`, from several threads at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: unsafe extern "C" fn(*mut c_void),
    create_filter: Create,
    key_may_match: MayMatch,
    name: unsafe extern "C" fn(*mut c_void) -> *const c_char,
) -> Box<Filter> {
    // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller of `leveldb_filterpolicy_create`.
        unsafe { destructor(state) };
    }
}

/// # Safety
/// Both arrays have `num_keys` elements. Each key refers to as many readable bytes as the element
/// of `lengths` says. `receive` accepts the pointer `state`, and bytes that are valid only during
/// its call.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_filterpolicy_create_filter(
    filter: &Filter,
    keys: *const *const u8,
    lengths: *const usize,
    num_keys: c_int,
    receive: unsafe extern "C" fn(*mut c_void, *const u8, usize),
    state: *mut c_void,
) {
    let count = usize::try_from(num_keys).unwrap_or(0);
    // SAFETY: `at` is below `count`, and the lengths are guaranteed by the caller.
    let key = |at| unsafe { memory::bytes(*keys.add(at), *lengths.add(at)) };
    let keys: Vec<&[u8]> = (0..count).map(key).collect();
    let mut made = Vec::new();
    filter.policy.create(&keys, &mut made);
    // SAFETY: guaranteed by the caller.
    unsafe { receive(state, made.as_ptr(), made.len()) };
}

/// # Safety
/// `key` refers to `keylen` readable bytes, and `bytes` to `length` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_filterpolicy_key_may_match(
    filter: &Filter,
    key: *const u8,
    keylen: usize,
    bytes: *const u8,
    length: usize,
) -> u8 {
    // SAFETY: guaranteed by the caller.
    let (key, bytes) = unsafe { (memory::bytes(key, keylen), memory::bytes(bytes, length)) };
    filter.policy.may_match(key, bytes).into()
}
