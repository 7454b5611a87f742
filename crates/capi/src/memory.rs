//! Bytes that pass between C and Rust, and `leveldb_free`.
#![expect(unsafe_code, reason = "C hands over pointers with lengths, and memory from malloc")]
use libc::c_void;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, ptr, slice};

/// `length` bytes at `at`, which may be anything if `length` is 0.
///
/// # Safety
/// As many bytes are readable at `at`, and do not change for as long as the result is used.
pub unsafe fn bytes<'a>(at: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: the caller's promise; an empty slice needs no memory, and C may pass NULL for it.
    if length == 0 { &[] } else { unsafe { slice::from_raw_parts(at, length) } }
}

/// The bytes of `text`, up to its zero byte.
///
/// # Safety
/// `text` ends in a zero byte, and does not change for as long as the result is used.
pub unsafe fn text<'a>(text: *const u8) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::ffi::CStr::from_ptr(text.cast()) }.to_bytes()
}

/// The path called `name`.
///
/// # Safety
/// As [`text`].
pub unsafe fn path<'a>(name: *const u8) -> &'a Path {
    // SAFETY: the caller's promise.
    Path::new(OsStr::from_bytes(unsafe { text(name) }))
}

/// A copy of `bytes` from `malloc`, for C to free. Ends the process if there is no memory, as Rust does everywhere.
pub fn copy(bytes: &[u8]) -> *mut u8 {
    // SAFETY: malloc may be called with any size; one byte at least, so that NULL always means failure.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    assert!(!copy.is_null(), "no memory for {} bytes", bytes.len());
    // SAFETY: the new memory has room for them, and nobody else knows it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    copy
}

/// As [`copy`], with a zero byte behind. What follows a zero byte in `text` is not seen by C.
pub fn copy_text(text: impl Into<Vec<u8>>) -> *mut u8 {
    let mut text = text.into();
    text.push(0);
    copy(&text)
}

/// Gives memory from `malloc` back; `NULL` is fine.
///
/// # Safety
/// `memory` came from `malloc`, and nobody uses it any more.
pub unsafe fn free(memory: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(memory.cast()) }
}

/// # Safety
/// As the headers ask: a value or a text that this library returned, or `NULL`.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_free(memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { free(memory.cast()) }
}
