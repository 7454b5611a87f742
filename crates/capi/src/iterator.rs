//! The C handle `leveldb_iterator_t`: a cursor that stores its last error, because the functions
//! that move it cannot return an error.
#![expect(unsafe_code, reason = "C passes pointers with lengths")]
use crate::{error::Failure, extra::transaction_cursor::TransactionCursor, memory};
use terrace::{Error, Result};

/// What an iterator moves over.
#[expect(clippy::large_enum_variant, reason = "each iterator has an allocation of its own")]
pub enum Cursor {
    Store(terrace::Cursor),
    Transaction(TransactionCursor),
}

/// Defines methods of [`Cursor`] that call the method of the same name.
macro_rules! forward {
    ($($name:ident($($argument:ident: $kind:ty)?) -> $result:ty $(, $mutable:ident)?;)*) => {$(
        #[inline]
        pub fn $name(&$($mutable)? self $(, $argument: $kind)?) -> $result {
            match self {
                Cursor::Store(cursor) => cursor.$name($($argument)?),
                Cursor::Transaction(cursor) => cursor.$name($($argument)?),
            }
        }
    )*};
}

impl Cursor {
    forward! {
        valid() -> bool;
        key() -> &[u8];
        value() -> &[u8];
        seek_to_first() -> Result<()>, mut;
        seek_to_last() -> Result<()>, mut;
        seek(key: &[u8]) -> Result<()>, mut;
        next() -> Result<()>, mut;
        prev() -> Result<()>, mut;
    }
}

impl From<terrace::Cursor> for Cursor {
    fn from(cursor: terrace::Cursor) -> Cursor {
        Cursor::Store(cursor)
    }
}

/// `leveldb_iterator_t`.
pub struct Iterator {
    pub cursor: Cursor,
    /// The error of the last move, if the move failed. The cursor is invalid after a failed move.
    error: Option<Error>,
}

impl Iterator {
    /// Returns an iterator that is not positioned yet.
    pub fn new(cursor: impl Into<Cursor>) -> Iterator {
        Iterator { cursor: cursor.into(), error: None }
    }

    /// Moves the cursor, and stores the error of the move.
    pub fn move_by(&mut self, step: impl FnOnce(&mut Cursor) -> Result<()>) {
        self.error = step(&mut self.cursor).err();
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_destroy(iterator: Box<Iterator>) {
    drop(iterator);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_valid(iterator: &Iterator) -> u8 {
    iterator.cursor.valid().into()
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_first(iterator: &mut Iterator) {
    iterator.move_by(Cursor::seek_to_first);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_last(iterator: &mut Iterator) {
    iterator.move_by(Cursor::seek_to_last);
}

/// # Safety
/// `k` refers to `klen` readable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_seek(iterator: &mut Iterator, k: *const u8, klen: usize) {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { memory::bytes(k, klen) };
    iterator.move_by(|cursor| cursor.seek(key));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_next(iterator: &mut Iterator) {
    iterator.move_by(Cursor::next);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_prev(iterator: &mut Iterator) {
    iterator.move_by(Cursor::prev);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_key(iterator: &Iterator, klen: &mut usize) -> *const u8 {
    let key = iterator.cursor.key();
    *klen = key.len();
    key.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_value(iterator: &Iterator, vlen: &mut usize) -> *const u8 {
    let value = iterator.cursor.value();
    *vlen = value.len();
    value.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_iter_entry(
    iterator: &Iterator,
    key: &mut *const u8,
    klen: &mut usize,
    value: &mut *const u8,
    vlen: &mut usize,
) -> u8 {
    if !iterator.cursor.valid() {
        return 0;
    }
    (*key, *klen) = (iterator.cursor.key().as_ptr(), iterator.cursor.key().len());
    (*value, *vlen) = (iterator.cursor.value().as_ptr(), iterator.cursor.value().len());
    1
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_get_error(iterator: &Iterator, errptr: &mut Failure) {
    errptr.of(iterator.error.clone().map_or(Ok(()), Err));
}
