//! Whole stores by their names: destroying one.
#![expect(unsafe_code, reason = "C hands over names that end in a zero byte")]
use crate::{error::Failure, memory, options::Options};

/// # Safety
/// `name` ends in a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_destroy_db(_options: &Options, name: *const u8, errptr: &mut Failure) {
    // SAFETY: the caller's promise.
    errptr.of(terrace::Db::destroy(unsafe { memory::path(name) }));
}
