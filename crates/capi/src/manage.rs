//! The C functions on stores that are not open: destroy and repair.
#![expect(unsafe_code, reason = "C passes zero-terminated strings")]
use crate::{error::Failure, memory, options::Options, refusal};
use terrace::{Db, Error};

/// Removes the store `name`, and the damaged stores that earlier repairs of it have replaced and
/// kept.
///
/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_destroy_db(options: &Options, name: *const u8, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    let destroyed = match &options.stores {
        Some(stores) => stores.destroy(path),
        None => terrace_storage::destroy_with_replaced(path).map_err(Error::from),
    };
    errptr.of(destroyed.map_err(|error| refusal::of_lock(path, error)));
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_repair_db(options: &Options, name: *const u8, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    let repaired = options.resolve().and_then(|engine| match &options.stores {
        Some(stores) => stores.repair(path, &engine),
        None => Db::repair_in_place(path, &engine),
    });
    errptr.of(repaired.map_err(|error| refusal::of_lock(path, error)));
}
