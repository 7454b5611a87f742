//! C functions that write encoded batches, with and without a WAL, and that delete key ranges.
#![expect(unsafe_code, reason = "C passes pointers with lengths")]
use crate::{db::Db, error::Failure, memory, options::WriteOptions};
use terrace::WriteBatch;

/// # Safety
/// `batch` refers to `length` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_write_bytes(
    db: &Db,
    options: &WriteOptions,
    batch: *const u8,
    length: usize,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let batch = WriteBatch::from_bytes(unsafe { memory::bytes(batch, length) });
    errptr.of(batch.and_then(|batch| db.0.write(batch, options.0))).unwrap_or(0)
}

/// # Safety
/// `batch` refers to `length` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_write_bytes_unlogged(
    db: &Db,
    batch: *const u8,
    length: usize,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let batch = WriteBatch::from_bytes(unsafe { memory::bytes(batch, length) });
    errptr.of(batch.and_then(|batch| db.0.write(batch, terrace::WriteOptions::without_wal()))).unwrap_or(0)
}

/// # Safety
/// Each of the two keys refers to as many readable bytes as its length says.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_delete_range(
    db: &Db,
    options: &WriteOptions,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (start, limit) = unsafe { (memory::bytes(start_key, start_key_len), memory::bytes(limit_key, limit_key_len)) };
    errptr.of(db.0.delete_range(start, limit, options.0));
}
