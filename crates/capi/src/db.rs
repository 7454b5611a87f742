//! The functions of `leveldb_t`, an open store: its reads and writes, and its snapshots.
#![expect(unsafe_code, reason = "C passes pointers with lengths")]
use crate::{
    batch::{self, Batch},
    error::{Failure, Kind, Message},
    iterator::Iterator,
    memory,
    options::{Options, ReadOptions, WriteOptions},
    refusal,
};
use libc::{c_int, c_void};
use std::{path::Path, ptr, slice};
use terrace::Snapshot;

/// The C handle `leveldb_t`: an open store.
pub struct Db(pub terrace::Db);

/// Opens the store in the directory `path`, or in memory. As in LevelDB, the parent of the
/// directory must exist.
fn open(options: &Options, path: &Path) -> Result<terrace::Db, Message> {
    let engine = options.resolve()?;
    let refused = |error| refusal::of_open(path, &engine, error);
    let db = match &options.stores {
        Some(stores) => stores.open(path, engine.clone()).map_err(refused)?,
        None => {
            if path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
                let text = format!("{}/LOCK: No such file or directory", path.display());
                return Err(Message::new(Kind::NotFound, text));
            }
            terrace::Db::open(path, engine.clone()).map_err(refused)?
        }
    };
    if let Some(logger) = &options.logger {
        logger.line(concat!("opened by Terrace ", env!("CARGO_PKG_VERSION")));
    }
    Ok(db)
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_open(options: &Options, name: *const u8, errptr: &mut Failure) -> Option<Box<Db>> {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    Some(Box::new(Db(errptr.of(open(options, path))?)))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_close(db: Box<Db>) {
    // The error is ignored, because the C function cannot return one. Acknowledged writes are in
    // the WAL, and synced writes stay durable.
    let _ = db.0.close();
}

/// # Safety
/// `key` and `val` refer to `keylen` and `vallen` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_put(
    db: &Db,
    options: &WriteOptions,
    key: *const u8,
    keylen: usize,
    val: *const u8,
    vallen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (key, value) = unsafe { (memory::bytes(key, keylen), memory::bytes(val, vallen)) };
    errptr.of(db.0.put_with(key, value, options.0));
}

/// # Safety
/// `key` refers to `keylen` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_delete(
    db: &Db,
    options: &WriteOptions,
    key: *const u8,
    keylen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    errptr.of(db.0.delete_with(key, options.0));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_write(db: &Db, options: &WriteOptions, batch: &Batch, errptr: &mut Failure) {
    errptr.of(db.0.write(batch.0.clone(), options.0)); // a copy, since the caller may write the batch again
}

/// # Safety
/// `rep` refers to `length` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_write(
    db: &Db,
    options: &WriteOptions,
    rep: *const u8,
    length: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let decoded = batch::decode(unsafe { memory::bytes(rep, length) });
    errptr.of(decoded.and_then(|batch| Ok(db.0.write(batch, options.0)?)));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_flush(db: &Db, errptr: &mut Failure) {
    errptr.of(db.0.flush());
}

/// # Safety
/// `key` refers to `keylen` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_get(
    db: &Db,
    options: &ReadOptions,
    key: *const u8,
    keylen: usize,
    vallen: &mut usize,
    errptr: &mut Failure,
) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    let value = errptr.of(db.0.get_with(key, &options.resolve())).flatten();
    memory::copy_value(value, vallen)
}

/// # Safety
/// `key` refers to `keylen` readable bytes. `receive` accepts the pointer `state`, and bytes that
/// are valid only during its call.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_get(
    db: &Db,
    options: &ReadOptions,
    key: *const u8,
    keylen: usize,
    receive: unsafe extern "C" fn(*mut c_void, *const u8, usize),
    state: *mut c_void,
    errptr: &mut Failure,
) -> u8 {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    let Some(value) = errptr.of(db.0.get_pinned(key, &options.resolve())).flatten() else { return 0 };
    // SAFETY: guaranteed by the caller; `value` pins the bytes.
    unsafe { receive(state, value.as_ptr(), value.len()) };
    1
}

#[unsafe(no_mangle)]
extern "C" fn terrace_last_sequence(db: &Db) -> u64 {
    db.0.last_sequence()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_durable_sequence(db: &Db) -> u64 {
    db.0.durable_sequence()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_wait_durable(db: &Db, sequence: u64, errptr: &mut Failure) {
    errptr.of(db.0.wait_durable(sequence));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_iterator(db: &Db, options: &ReadOptions) -> Box<Iterator> {
    Box::new(Iterator::new(db.0.cursor(options.resolve())))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_snapshot(db: &Db) -> Box<Snapshot> {
    Box::new(db.0.snapshot())
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_release_snapshot(_db: &Db, snapshot: Box<Snapshot>) {
    drop(snapshot);
}

/// # Safety
/// `propname` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_property_value(db: &Db, propname: *const u8) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { memory::text(propname) };
    let value = std::str::from_utf8(name).ok().and_then(|name| db.0.property(name));
    value.map_or(ptr::null_mut(), memory::copy_text)
}

/// Estimates the bytes of each key range. If an error occurs, sets all sizes to 0, because the C
/// function cannot return an error.
///
/// # Safety
/// All arrays have `num_ranges` elements. Each key refers to as many readable bytes as the element
/// of its array of lengths says.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_approximate_sizes(
    db: &Db,
    num_ranges: c_int,
    range_start_key: *const *const u8,
    range_start_key_len: *const usize,
    range_limit_key: *const *const u8,
    range_limit_key_len: *const usize,
    sizes: *mut u64,
) {
    let count = usize::try_from(num_ranges).unwrap_or(0);
    let key = |keys: *const *const u8, lengths: *const usize, at: usize| {
        // SAFETY: `at` is below `count`, and the lengths are guaranteed by the caller.
        unsafe { memory::bytes(*keys.add(at), *lengths.add(at)) }
    };
    let range = |at| (key(range_start_key, range_start_key_len, at), key(range_limit_key, range_limit_key_len, at));
    let ranges: Vec<_> = (0..count).map(range).collect();
    let found = db.0.approximate_sizes(&ranges).unwrap_or_else(|_| vec![0; count]);
    if count > 0 {
        // SAFETY: guaranteed by the caller.
        unsafe { slice::from_raw_parts_mut(sizes, count) }.copy_from_slice(&found);
    }
}

/// # Safety
/// Each of the two keys is `NULL` or refers to the given number of readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_compact_range(
    db: &Db,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
) {
    // SAFETY: guaranteed by the caller.
    let bound = |key: *const u8, length| (!key.is_null()).then(|| unsafe { memory::bytes(key, length) });
    // The error is ignored, because the C function cannot return one. The next write reports the
    // failure.
    let _ = db.0.compact_range(bound(start_key, start_key_len), bound(limit_key, limit_key_len));
}
