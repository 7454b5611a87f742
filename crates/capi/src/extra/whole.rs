//! C functions on a whole store: compaction, checkpoint, and resumption of writes after a full
//! disk.
#![expect(unsafe_code, reason = "C passes pointers with lengths, and zero-terminated strings")]
use crate::{db::Db, error::Failure, memory};

/// # Safety
/// A key that is not `NULL` refers to as many readable bytes as its length says.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_compact_range(
    db: &Db,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let bound = |key: *const u8, length| (!key.is_null()).then(|| unsafe { memory::bytes(key, length) });
    errptr.of(db.0.compact_range(bound(start_key, start_key_len), bound(limit_key, limit_key_len)));
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_checkpoint(db: &Db, name: *const u8, errptr: &mut Failure) -> u64 {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    errptr.of(db.0.checkpoint(path)).map_or(0, |checkpoint| checkpoint.sequence)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_resume(db: &Db, errptr: &mut Failure) {
    errptr.of(db.0.resume());
}
