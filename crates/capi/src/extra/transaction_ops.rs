//! Reads and writes of a transaction. Each function has a twin for a column family.
#![expect(unsafe_code, reason = "C passes pointers with lengths")]
use super::{family::Family, transaction::Transaction, transaction_cursor::TransactionCursor};
use crate::{
    error::Failure,
    iterator::{Cursor, Iterator},
    memory,
    options::ReadOptions,
};

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_get(
    transaction: &Transaction,
    key: *const u8,
    keylen: usize,
    vallen: &mut usize,
    errptr: &mut Failure,
) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    memory::copy_value(errptr.of(transaction.0.with(|transaction| transaction.get(key))).flatten(), vallen)
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_get_cf(
    transaction: &Transaction,
    family: &Family,
    key: *const u8,
    keylen: usize,
    vallen: &mut usize,
    errptr: &mut Failure,
) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    let found = transaction.0.with(|transaction| transaction.get_cf(&family.0, key));
    memory::copy_value(errptr.of(found).flatten(), vallen)
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_get_for_update(
    transaction: &Transaction,
    key: *const u8,
    keylen: usize,
    vallen: &mut usize,
    errptr: &mut Failure,
) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    let found = transaction.0.with(|transaction| transaction.get_for_update(key));
    memory::copy_value(errptr.of(found).flatten(), vallen)
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_get_for_update_cf(
    transaction: &Transaction,
    family: &Family,
    key: *const u8,
    keylen: usize,
    vallen: &mut usize,
    errptr: &mut Failure,
) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    let found = transaction.0.with(|transaction| transaction.get_for_update_cf(&family.0, key));
    memory::copy_value(errptr.of(found).flatten(), vallen)
}

/// # Safety
/// The key and the value have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_put(
    transaction: &Transaction,
    key: *const u8,
    keylen: usize,
    val: *const u8,
    vallen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (key, value) = unsafe { (memory::bytes(key, keylen), memory::bytes(val, vallen)) };
    errptr.of(transaction.0.with(|transaction| transaction.put(key, value)));
}

/// # Safety
/// The key and the value have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_put_cf(
    transaction: &Transaction,
    family: &Family,
    key: *const u8,
    keylen: usize,
    val: *const u8,
    vallen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (key, value) = unsafe { (memory::bytes(key, keylen), memory::bytes(val, vallen)) };
    errptr.of(transaction.0.with(|transaction| transaction.put_cf(&family.0, key, value)));
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_delete(
    transaction: &Transaction,
    key: *const u8,
    keylen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    errptr.of(transaction.0.with(|transaction| transaction.delete(key)));
}

/// # Safety
/// The key has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_delete_cf(
    transaction: &Transaction,
    family: &Family,
    key: *const u8,
    keylen: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(key, keylen) };
    errptr.of(transaction.0.with(|transaction| transaction.delete_cf(&family.0, key)));
}

/// # Safety
/// The keys have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_delete_range(
    transaction: &Transaction,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (start, limit) = unsafe { memory::range(start_key, start_key_len, limit_key, limit_key_len) };
    errptr.of(transaction.0.with(|transaction| transaction.delete_range(start, limit)));
}

/// # Safety
/// The keys have the given lengths.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_delete_range_cf(
    transaction: &Transaction,
    family: &Family,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (start, limit) = unsafe { memory::range(start_key, start_key_len, limit_key, limit_key_len) };
    errptr.of(transaction.0.with(|transaction| transaction.delete_range_cf(&family.0, start, limit)));
}

/// # Safety
/// A key that is not `NULL` has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_create_iterator(
    transaction: &Transaction,
    options: &ReadOptions,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
) -> Box<Iterator> {
    // SAFETY: guaranteed by the caller.
    let bounds = unsafe { (memory::bound(start_key, start_key_len), memory::bound(limit_key, limit_key_len)) };
    iterator(transaction, None, options.within(bounds))
}

/// # Safety
/// A key that is not `NULL` has the given length.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_transaction_create_iterator_cf(
    transaction: &Transaction,
    family: &Family,
    options: &ReadOptions,
    start_key: *const u8,
    start_key_len: usize,
    limit_key: *const u8,
    limit_key_len: usize,
) -> Box<Iterator> {
    // SAFETY: guaranteed by the caller.
    let bounds = unsafe { (memory::bound(start_key, start_key_len), memory::bound(limit_key, limit_key_len)) };
    iterator(transaction, Some(family), options.within(bounds))
}

fn iterator(transaction: &Transaction, family: Option<&Family>, options: terrace::ReadOptions) -> Box<Iterator> {
    let family = family.map(|family| family.0.clone());
    let cursor = TransactionCursor::new(transaction.0.clone(), family, options);
    Box::new(Iterator::new(Cursor::Transaction(cursor)))
}
