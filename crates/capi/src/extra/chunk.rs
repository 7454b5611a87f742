//! Iterators over a key range that copy many pairs per call. They serve languages in which each
//! call of a C function is slow.
#![expect(unsafe_code, reason = "C passes pointers with lengths, and a buffer")]
use crate::{
    db::Db,
    iterator::{Cursor, Iterator},
    memory,
    options::ReadOptions,
};
use std::ptr;

/// Length of the two numbers before each pair of a chunk, in bytes.
const HEAD_BYTES: usize = 8;

/// # Safety
/// A key that is not `NULL` refers to as many readable bytes as its length says.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_create_range_iterator(
    db: &Db,
    options: &ReadOptions,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
) -> Box<Iterator> {
    // SAFETY: guaranteed by the caller.
    let bounds = unsafe { (memory::bound(start_key, start_key_len), memory::bound(limit_key, limit_key_len)) };
    Box::new(Iterator::new(db.0.cursor(options.within(bounds))))
}

/// # Safety
/// `capacity` bytes are writable at `buffer`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_iter_read(
    iterator: &mut Iterator,
    backward: u8,
    buffer: *mut u8,
    capacity: usize,
    length: &mut usize,
) -> usize {
    let (mut pairs, mut used) = (0, 0);
    *length = 0;
    while iterator.cursor.valid() {
        let (key, value) = (iterator.cursor.key(), iterator.cursor.value());
        let bytes = HEAD_BYTES + key.len() + value.len();
        if bytes > capacity - used {
            if pairs == 0 {
                *length = bytes;
                return 0;
            }
            break;
        }
        // SAFETY: the pair fits between `used` and `capacity`.
        unsafe { put_pair(buffer.add(used), key, value) };
        (pairs, used) = (pairs + 1, used + bytes);
        iterator.move_by(if backward == 0 { Cursor::next } else { Cursor::prev });
    }
    *length = used;
    pairs
}

/// Writes both lengths, the key and the value. The lengths fit, because the formats limit keys and
/// values to fewer than 2³² bytes.
///
/// # Safety
/// The pair fits at `at`.
unsafe fn put_pair(at: *mut u8, key: &[u8], value: &[u8]) {
    let lengths = [key.len() as u32, value.len() as u32];
    // SAFETY: guaranteed by the caller. `at` may be unaligned, so all writes are copies of bytes.
    unsafe {
        ptr::copy_nonoverlapping(lengths.as_ptr().cast(), at, HEAD_BYTES);
        ptr::copy_nonoverlapping(key.as_ptr(), at.add(HEAD_BYTES), key.len());
        ptr::copy_nonoverlapping(value.as_ptr(), at.add(HEAD_BYTES + key.len()), value.len());
    }
}
