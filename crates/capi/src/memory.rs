//! Converts bytes and strings between C and Rust, and exports `leveldb_free`.
#![expect(unsafe_code, reason = "C passes pointers with lengths, and memory from malloc")]
use libc::c_void;
use std::{path::Path, ptr, slice};

/// Returns the `length` bytes at `at`, which may be any pointer if `length` is 0.
///
/// # Safety
/// `length` bytes are readable at `at`, and do not change during the lifetime of the result.
pub unsafe fn bytes<'a>(at: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: guaranteed by the caller; C may pass NULL for an empty slice.
    if length == 0 { &[] } else { unsafe { slice::from_raw_parts(at, length) } }
}

/// Returns a bound of a key range: the `length` bytes at `at`; `None` if `at` is `NULL`.
///
/// # Safety
/// See [`bytes`].
pub unsafe fn bound<'a>(at: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    (!at.is_null()).then(|| unsafe { bytes(at, length) })
}

/// Returns a range of keys from two bounds.
///
/// # Safety
/// See [`bytes`].
pub unsafe fn range<'a>(
    start: *const u8,
    start_length: usize,
    limit: *const u8,
    limit_length: usize,
) -> (&'a [u8], &'a [u8]) {
    // SAFETY: guaranteed by the caller.
    unsafe { (bytes(start, start_length), bytes(limit, limit_length)) }
}

/// Returns the `count` elements at `at`, which may be any pointer if `count` is 0.
///
/// # Safety
/// `count` elements are readable at `at`, and do not change during the lifetime of the result.
pub unsafe fn array<'a, T>(at: *const T, count: usize) -> &'a [T] {
    // SAFETY: guaranteed by the caller; C may pass NULL for an empty array.
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(at, count) } }
}

/// Returns the bytes of `text`, without the zero byte.
///
/// # Safety
/// `text` is zero-terminated, and does not change during the lifetime of the result.
pub unsafe fn text<'a>(text: *const u8) -> &'a [u8] {
    // SAFETY: guaranteed by the caller.
    unsafe { std::ffi::CStr::from_ptr(text.cast()) }.to_bytes()
}

/// Returns the path `name`.
///
/// # Safety
/// See [`text`].
#[cfg(unix)]
pub unsafe fn path<'a>(name: *const u8) -> &'a Path {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    // SAFETY: guaranteed by the caller.
    Path::new(OsStr::from_bytes(unsafe { text(name) }))
}

/// Returns the path `name`, which is UTF-8. No other text is the name of a file, so it becomes a
/// path with a character that Windows allows in no path.
///
/// # Safety
/// See [`text`].
#[cfg(windows)]
pub unsafe fn path<'a>(name: *const u8) -> &'a Path {
    // SAFETY: guaranteed by the caller.
    Path::new(str::from_utf8(unsafe { text(name) }).unwrap_or("?"))
}

/// Returns a copy of `bytes` from `malloc`, which the C program frees. Ends the process if there
/// is not enough memory, as Rust's allocator does.
pub fn copy(bytes: &[u8]) -> *mut u8 {
    // SAFETY: malloc accepts any size. The size is at least one byte, so that NULL always means
    // failure.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    assert!(!copy.is_null(), "out of memory: {} bytes", bytes.len());
    // SAFETY: the new memory is large enough, and no other pointer refers to it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    copy
}

/// Returns a zero-terminated copy of `text` from `malloc`. If `text` contains a zero byte, C sees
/// only the part before it.
pub fn copy_text(text: impl Into<Vec<u8>>) -> *mut u8 {
    let mut text = text.into();
    text.push(0);
    copy(&text)
}

/// Returns a copy of `value` from `malloc` and stores its length; `NULL` and 0 for `None`.
pub fn copy_value(value: Option<Vec<u8>>, length: &mut usize) -> *mut u8 {
    *length = value.as_ref().map_or(0, Vec::len);
    value.map_or(ptr::null_mut(), |value| copy(&value))
}

/// Returns a copy of an array of pointers from `malloc`.
pub fn copy_array(array: &[*mut u8]) -> *mut *mut u8 {
    // SAFETY: malloc accepts any size, and its memory is aligned for pointers.
    let copy = unsafe { libc::malloc(size_of_val(array).max(1)) }.cast::<*mut u8>();
    assert!(!copy.is_null(), "out of memory: {} pointers", array.len());
    // SAFETY: the new memory is large enough, and no other pointer refers to it.
    unsafe { ptr::copy_nonoverlapping(array.as_ptr(), copy, array.len()) };
    copy
}

/// Frees memory from `malloc`; `NULL` is allowed.
///
/// # Safety
/// `memory` came from `malloc`, and is not used afterwards.
pub unsafe fn free(memory: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::free(memory.cast()) }
}

/// # Safety
/// `memory` is a value or a string that this library returned, or `NULL`.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_free(memory: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe { free(memory.cast()) }
}
