//! Reads that LevelDB's interface does not have: values without a copy (`terrace_pinned_t`),
//! lookups of many keys in one call, and size estimates that report errors.
#![expect(unsafe_code, reason = "C passes pointers with lengths, and arrays of them")]
use crate::{db::Db, error::Failure, memory, options::ReadOptions};
use std::{ptr, slice};
use terrace::PinnedValue;

/// # Safety
/// `key` refers to `keylen` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_get_pinned(
    db: &Db,
    options: &ReadOptions,
    key: *const u8,
    keylen: usize,
    errptr: &mut Failure,
) -> Option<Box<PinnedValue>> {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    errptr.of(db.0.get_pinned(key, &options.resolve())).flatten().map(Box::new)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_pinned_value(pinned: &PinnedValue, vallen: &mut usize) -> *const u8 {
    *vallen = pinned.len();
    pinned.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_pinned_destroy(pinned: Option<Box<PinnedValue>>) {
    drop(pinned);
}

/// # Safety
/// All four arrays have `num_keys` elements. Each key refers to as many readable bytes as the
/// element of `key_lengths` says.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_multi_get(
    db: &Db,
    options: &ReadOptions,
    num_keys: usize,
    keys: *const *const u8,
    key_lengths: *const usize,
    values: *mut *mut u8,
    value_lengths: *mut usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        multi_get((num_keys, keys, key_lengths), (values, value_lengths), errptr, |keys| {
            db.0.multi_get_with(keys, &options.resolve())
        });
    }
}

/// Looks up keys with `look_up`, and stores copies of their values.
///
/// # Safety
/// All four arrays have as many elements as the number in `keys`, and the keys have the given
/// lengths.
pub unsafe fn multi_get(
    (count, keys, key_lengths): (usize, *const *const u8, *const usize),
    (values, value_lengths): (*mut *mut u8, *mut usize),
    errptr: &mut Failure,
    look_up: impl FnOnce(&[&[u8]]) -> Vec<terrace::Result<Option<Vec<u8>>>>,
) {
    if count == 0 {
        return; // the arrays may then be NULL
    }
    // SAFETY: `at` is below `count`; the arrays and lengths are guaranteed by the caller.
    let key = |at| unsafe { memory::bytes(*keys.add(at), *key_lengths.add(at)) };
    let keys: Vec<&[u8]> = (0..count).map(key).collect();
    let found: terrace::Result<Vec<_>> = look_up(&keys).into_iter().collect();
    let found = errptr.of(found).unwrap_or_else(|| vec![None; count]);
    // SAFETY: guaranteed by the caller. C may pass uninitialised memory, in which any bits are
    // valid pointers and numbers.
    let (values, lengths) = unsafe {
        ptr::write_bytes(values, 0, count);
        ptr::write_bytes(value_lengths, 0, count);
        (slice::from_raw_parts_mut(values, count), slice::from_raw_parts_mut(value_lengths, count))
    };
    for ((found, value), length) in found.iter().zip(values).zip(lengths) {
        if let Some(found) = found {
            (*value, *length) = (memory::copy(found), found.len());
        }
    }
}

/// # Safety
/// Each of the two keys refers to as many readable bytes as its length says.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_approximate_size(
    db: &Db,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let range = unsafe { (memory::bytes(start_key, start_key_len), memory::bytes(limit_key, limit_key_len)) };
    errptr.of(db.0.approximate_sizes(&[range])).map_or(0, |sizes| sizes[0])
}
