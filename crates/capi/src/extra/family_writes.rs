//! Writes to a column family, and batches over several families.
#![expect(unsafe_code, reason = "C passes pointers with lengths, and arrays of them")]
use super::family::Family;
use crate::{batch::Batch, db::Db, error::Failure, memory, options::WriteOptions};
use terrace::WriteBatch;

/// # Safety
/// The key and the value have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_put_cf(
    family: &Family,
    options: &WriteOptions,
    key: *const u8,
    keylen: usize,
    val: *const u8,
    vallen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (key, value) = unsafe { (memory::bytes(key, keylen), memory::bytes(val, vallen)) };
    errptr.of(family.0.put_with(key, value, options.0));
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_delete_cf(
    family: &Family,
    options: &WriteOptions,
    key: *const u8,
    keylen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    errptr.of(family.0.delete_with(unsafe { memory::bytes(key, keylen) }, options.0));
}

/// # Safety
/// The keys have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_delete_range_cf(
    family: &Family,
    options: &WriteOptions,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (start, limit) = unsafe { memory::range(start_key, start_key_len, limit_key, limit_key_len) };
    errptr.of(family.0.delete_range(start, limit, options.0));
}

/// # Safety
/// A key that is not `NULL` has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_compact_range_cf(
    family: &Family,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (start, limit) = unsafe { (memory::bound(start_key, start_key_len), memory::bound(limit_key, limit_key_len)) };
    errptr.of(family.0.compact_range(start, limit));
}

/// # Safety
/// The array has `num_paths` elements, which are zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_ingest_cf(
    family: &Family,
    paths: *const *const u8,
    num_paths: usize,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let paths = unsafe { memory::array(paths, num_paths) };
    // SAFETY: guaranteed by the caller.
    let paths: Vec<_> = paths.iter().map(|path| unsafe { memory::path(*path) }).collect();
    errptr.of(family.0.ingest(&paths)).map_or(0, |ingested| ingested.entries)
}

/// # Safety
/// The key and the value have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_writebatch_put_cf(
    batch: &mut Batch,
    family: &Family,
    key: *const u8,
    klen: usize,
    val: *const u8,
    vlen: usize,
) {
    // SAFETY: guaranteed by the caller.
    let (key, value) = unsafe { (memory::bytes(key, klen), memory::bytes(val, vlen)) };
    batch.0.put_cf(&family.0, key, value);
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_writebatch_delete_cf(batch: &mut Batch, family: &Family, key: *const u8, klen: usize) {
    // SAFETY: guaranteed by the caller.
    batch.0.delete_cf(&family.0, unsafe { memory::bytes(key, klen) });
}

/// # Safety
/// The keys have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_writebatch_delete_range_cf(
    batch: &mut Batch,
    family: &Family,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
) {
    // SAFETY: guaranteed by the caller.
    let (start, limit) = unsafe { memory::range(start_key, start_key_len, limit_key, limit_key_len) };
    batch.0.delete_range_cf(&family.0, start, limit);
}

/// # Safety
/// The batch has the given length, and the array `num_families` elements.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_write_bytes_cf(
    db: &Db,
    options: Option<&WriteOptions>,
    families: *const &Family,
    num_families: usize,
    batch: *const u8,
    length: usize,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let (bytes, families) = unsafe { (memory::bytes(batch, length), memory::array(families, num_families)) };
    let families: Vec<_> = families.iter().map(|family| &family.0).collect();
    let options = options.map_or_else(terrace::WriteOptions::without_wal, |options| options.0);
    let written = WriteBatch::from_bytes_in(bytes, &families).and_then(|batch| db.0.write(batch, options));
    errptr.of(written).unwrap_or(0)
}
