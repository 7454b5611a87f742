//! The functions of `leveldb_writebatch_t`, a batch of writes.
#![expect(unsafe_code, reason = "C passes pointers with lengths, and callbacks")]
use crate::{
    error::{Kind, Message},
    memory,
};
use libc::c_void;
use std::ptr;
use terrace::{Op, WriteBatch};
use terrace_format::batch;

/// The C handle `leveldb_writebatch_t`: a batch of writes.
pub struct Batch(pub WriteBatch);

/// Decodes a batch of puts and deletes from a WAL record. LevelDB's batches in memory have the
/// same encoding. The sequence number in the record may be any number and has no effect.
pub fn decode(record: &[u8]) -> Result<WriteBatch, Message> {
    let mut record = record.to_vec();
    if let Some(sequence) = record.first_chunk_mut::<8>() {
        sequence.fill(0);
    }
    let decoded = batch::Batch::decode(record);
    let decoded = decoded.map_err(|corrupt| Message::new(Kind::Corruption, format!("bad WriteBatch: {corrupt}")))?;
    let mut batch = WriteBatch::new();
    for op in decoded.ops() {
        match op {
            Op::Put(key, value) => batch.put(key, value),
            Op::Delete(key) => batch.delete(key),
            _ => return Err(Message::new(Kind::NotSupported, "the batch has operations that LevelDB does not have")),
        };
    }
    Ok(batch)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_create() -> Box<Batch> {
    Box::new(Batch(WriteBatch::new()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_destroy(batch: Option<Box<Batch>>) {
    drop(batch);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_clear(batch: &mut Batch) {
    batch.0.clear();
}

/// # Safety
/// `key` and `val` refer to `klen` and `vlen` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_put(
    batch: &mut Batch,
    key: *const u8,
    klen: usize,
    val: *const u8,
    vlen: usize,
) {
    // SAFETY: guaranteed by the caller.
    let (key, value) = unsafe { (memory::bytes(key, klen), memory::bytes(val, vlen)) };
    batch.0.put(key, value);
}

/// # Safety
/// `key` refers to `klen` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_delete(batch: &mut Batch, key: *const u8, klen: usize) {
    // SAFETY: guaranteed by the caller.
    batch.0.delete(unsafe { memory::bytes(key, klen) });
}

type Put = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize);
type Deleted = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// # Safety
/// `put` and `deleted` accept the pointer `state`, and bytes that are valid only during their
/// call.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_iterate(batch: &Batch, state: *mut c_void, put: Put, deleted: Deleted) {
    for op in batch.0.ops() {
        // SAFETY: guaranteed by the caller; the bytes are borrowed from the batch.
        unsafe {
            match op {
                Op::Put(key, value) => put(state, key.as_ptr(), key.len(), value.as_ptr(), value.len()),
                Op::Delete(key) => deleted(state, key.as_ptr(), key.len()),
                _ => {} // LevelDB's callbacks have neither column families nor range deletes
            }
        }
    }
}

/// Appends the operations of `source` to `destination`. The two arguments may be the same batch.
/// They are pointers and not references, because Rust forbids a mutable and a second reference to
/// one batch.
///
/// # Safety
/// Both are batches that no other call uses.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_append(destination: *mut Batch, source: *const Batch) {
    if ptr::eq(destination, source) {
        // SAFETY: guaranteed by the caller.
        let batch = unsafe { &mut *destination };
        let copy = batch.0.clone();
        batch.0.append(&copy);
    } else {
        // SAFETY: guaranteed by the caller; the two batches differ.
        let (destination, source) = unsafe { (&mut *destination, &*source) };
        destination.0.append(&source.0);
    }
}
