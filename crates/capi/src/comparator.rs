//! The functions of `leveldb_comparator_t`, an order of keys that C functions define.
#![expect(unsafe_code, reason = "C passes callbacks and their state")]
use crate::memory;
use libc::{c_int, c_void};
use std::{cmp::Ordering, sync::Arc};

type Compare = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;

/// The C handle `leveldb_comparator_t`.
pub struct Comparator {
    pub order: Arc<Order>,
    destructor: unsafe extern "C" fn(*mut c_void),
}

/// The part of a comparator that an open store uses. As in LevelDB, the store must be closed
/// before the C program destroys the comparator.
pub struct Order {
    state: *mut c_void,
    compare: Compare,
    name: String,
}

// SAFETY: as in LevelDB, the header requires a `compare` that several threads may call at once.
unsafe impl Send for Order {}
// SAFETY: as in LevelDB, the header requires a `compare` that several threads may call at once.
unsafe impl Sync for Order {}

impl terrace::Comparator for Order {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // SAFETY: guaranteed by the caller of `leveldb_comparator_create`, for as long as the
        // handle is not destroyed.
        unsafe { (self.compare)(self.state, a.as_ptr(), a.len(), b.as_ptr(), b.len()) }.cmp(&0)
    }
}

/// # Safety
/// `name` returns a zero-terminated string. All three functions accept `state` until the
/// destructor has been called. Several threads may call `compare` at the same time.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: unsafe extern "C" fn(*mut c_void),
    compare: Compare,
    name: unsafe extern "C" fn(*mut c_void) -> *const u8,
) -> Box<Comparator> {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { memory::text(name(state)) };
    let name = String::from_utf8_lossy(name).into_owned();
    Box::new(Comparator { order: Arc::new(Order { state, compare, name }), destructor })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_destroy(comparator: Option<Box<Comparator>>) {
    let Some(comparator) = comparator else { return };
    // SAFETY: guaranteed by the caller of `leveldb_comparator_create`.
    unsafe { (comparator.destructor)(comparator.order.state) };
}
