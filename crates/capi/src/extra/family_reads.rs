//! Reads of a column family.
#![expect(unsafe_code, reason = "C passes pointers with lengths, and arrays of them")]
use super::{family::Family, read};
use crate::{error::Failure, iterator::Iterator, memory, options::ReadOptions};
use terrace::PinnedValue;

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_get_cf(
    family: &Family,
    options: &ReadOptions,
    key: *const u8,
    keylen: usize,
    vallen: &mut usize,
    errptr: &mut Failure,
) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    let value = errptr.of(family.0.get_with(key, &options.resolve())).flatten();
    memory::copy_value(value, vallen)
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_get_pinned_cf(
    family: &Family,
    options: &ReadOptions,
    key: *const u8,
    keylen: usize,
    errptr: &mut Failure,
) -> Option<Box<PinnedValue>> {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    errptr.of(family.0.get_pinned(key, &options.resolve())).flatten().map(Box::new)
}

/// # Safety
/// All four arrays have `num_keys` elements, and the keys have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_multi_get_cf(
    family: &Family,
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
        read::multi_get((num_keys, keys, key_lengths), (values, value_lengths), errptr, |keys| {
            family.0.multi_get_with(keys, &options.resolve())
        });
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_create_iterator_cf(family: &Family, options: &ReadOptions) -> Box<Iterator> {
    Box::new(Iterator::new(family.0.cursor(options.resolve())))
}

/// # Safety
/// A key that is not `NULL` has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_create_range_iterator_cf(
    family: &Family,
    options: &ReadOptions,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
) -> Box<Iterator> {
    // SAFETY: guaranteed by the caller.
    let bounds = unsafe { (memory::bound(start_key, start_key_len), memory::bound(limit_key, limit_key_len)) };
    Box::new(Iterator::new(family.0.cursor(options.within(bounds))))
}

/// # Safety
/// The keys have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_approximate_size_cf(
    family: &Family,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let range = unsafe { memory::range(start_key, start_key_len, limit_key, limit_key_len) };
    errptr.of(family.0.approximate_sizes(&[range])).map_or(0, |sizes| sizes[0])
}

/// # Safety
/// `directory` is zero-terminated. A key that is not `NULL` has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_export_cf(
    family: &Family,
    options: &ReadOptions,
    directory: *const u8,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) -> usize {
    // SAFETY: guaranteed by the caller.
    let (directory, bounds) = unsafe {
        (memory::path(directory), (memory::bound(start_key, start_key_len), memory::bound(limit_key, limit_key_len)))
    };
    errptr.of(family.0.export(directory, options.within(bounds))).map_or(0, |tables| tables.len())
}
