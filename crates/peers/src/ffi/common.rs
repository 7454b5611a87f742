//! The part of LevelDB's C API that RocksDB also has. The functions of both libraries follow the
//! same rules, and their names differ only in the first word.
//!
//! Every type has the library's marker type `L` as a parameter. An object of one library can
//! therefore not be passed to a function of the other library. The safe methods rely on the
//! invariants of `super` and on one more: *bytes are borrowed for one call.* A C function copies
//! keys and values before it returns. The borrow of an iterator's bytes ends before the iterator
//! moves.
use super::{Err, Handle, Ptr, SendObject, SyncObject, borrowed_bytes, functions, start};
use crate::{PeerError, Result};
use std::{
    ffi::{CStr, c_char, c_uchar, c_void},
    marker::PhantomData,
    ptr,
};

/// Declares C types that Rust code uses only through a pointer, and their thread safety.
macro_rules! objects {
    (SendObject: $($movable:ident)*; SyncObject: $($shared:ident)*) => {
        $(objects! { $movable })* $(objects! { $shared })*
        $(
            // SAFETY: the use of this macro has a comment that gives the argument for each type.
            unsafe impl<L> SendObject for $movable<L> {}
        )*
        $(
            // SAFETY: the use of this macro has a comment that gives the argument for each type.
            unsafe impl<L> SendObject for $shared<L> {}
            // SAFETY: the use of this macro has a comment that gives the argument for each type.
            unsafe impl<L> SyncObject for $shared<L> {}
        )*
    };
    ($name:ident) => {
        #[repr(C)]
        pub(crate) struct $name<L> {
            _opaque: [u8; 0],
            _of: PhantomData<L>,
        }
    };
}

// A batch and an iterator are not tied to a thread, so they may move to another thread. Several
// threads may use a database or options at the same time: a database locks internally, and
// options change only before they are shared.
objects! { SendObject: Batch Iter; SyncObject: Db Options ReadOptions WriteOptions }

functions! {
    Common<L>;
    free: fn(*mut c_void);
    options_create: fn() -> *mut Options<L>;
    options_destroy: fn(*mut Options<L>);
    readoptions_create: fn() -> *mut ReadOptions<L>;
    readoptions_destroy: fn(*mut ReadOptions<L>);
    readoptions_set_verify_checksums: fn(*mut ReadOptions<L>, c_uchar);
    writeoptions_create: fn() -> *mut WriteOptions<L>;
    writeoptions_destroy: fn(*mut WriteOptions<L>);
    writeoptions_set_sync: fn(*mut WriteOptions<L>, c_uchar);
    writebatch_create: fn() -> *mut Batch<L>;
    writebatch_destroy: fn(*mut Batch<L>);
    writebatch_clear: fn(*mut Batch<L>);
    writebatch_put: fn(*mut Batch<L>, Ptr, usize, Ptr, usize);
    writebatch_delete: fn(*mut Batch<L>, Ptr, usize);
    open: fn(*const Options<L>, Ptr, Err) -> *mut Db<L>;
    close: fn(*mut Db<L>);
    put: fn(*mut Db<L>, *const WriteOptions<L>, Ptr, usize, Ptr, usize, Err);
    delete: fn(*mut Db<L>, *const WriteOptions<L>, Ptr, usize, Err);
    write: fn(*mut Db<L>, *const WriteOptions<L>, *mut Batch<L>, Err);
    property_value: fn(*mut Db<L>, Ptr) -> *mut c_char;
    compact_range: fn(*mut Db<L>, Ptr, usize, Ptr, usize);
    create_iterator: fn(*mut Db<L>, *const ReadOptions<L>) -> *mut Iter<L>;
    iter_destroy: fn(*mut Iter<L>);
    iter_valid: fn(*const Iter<L>) -> c_uchar;
    iter_seek_to_first: fn(*mut Iter<L>);
    iter_seek_to_last: fn(*mut Iter<L>);
    iter_seek: fn(*mut Iter<L>, Ptr, usize);
    iter_next: fn(*mut Iter<L>);
    iter_prev: fn(*mut Iter<L>);
    iter_key: fn(*const Iter<L>, *mut usize) -> Ptr;
    iter_value: fn(*const Iter<L>, *mut usize) -> Ptr;
    iter_get_error: fn(*const Iter<L>, Err);
}

/// Safe methods that call the C functions. Each pointer that a method passes is from a live
/// [`Handle`] or from a borrowed slice. This is the safety argument of each `unsafe` block below
/// whose comment gives no other.
impl<L> Common<L> {
    pub(crate) fn options(&self) -> Handle<Options<L>> {
        // SAFETY: the two functions are the constructor and the destructor of the same type.
        Handle::new(unsafe { (self.options_create)() }, self.options_destroy)
    }

    pub(crate) fn read_options(&self, verify_checksums: bool) -> Handle<ReadOptions<L>> {
        // SAFETY: the two functions are the constructor and the destructor of the same type.
        let options = Handle::new(unsafe { (self.readoptions_create)() }, self.readoptions_destroy);
        // SAFETY: `options` is a live object, and no other thread has it yet.
        unsafe { (self.readoptions_set_verify_checksums)(options.as_ptr(), verify_checksums.into()) }
        options
    }

    pub(crate) fn write_options(&self, sync: bool) -> Handle<WriteOptions<L>> {
        // SAFETY: the two functions are the constructor and the destructor of the same type.
        let options = Handle::new(unsafe { (self.writeoptions_create)() }, self.writeoptions_destroy);
        // SAFETY: `options` is a live object, and no other thread has it yet.
        unsafe { (self.writeoptions_set_sync)(options.as_ptr(), sync.into()) }
        options
    }

    pub(crate) fn batch(&self) -> Handle<Batch<L>> {
        // SAFETY: the two functions are the constructor and the destructor of the same type.
        Handle::new(unsafe { (self.writebatch_create)() }, self.writebatch_destroy)
    }

    pub(crate) fn batch_clear(&self, batch: &mut Handle<Batch<L>>) {
        // SAFETY: all pointers are from live handles or borrowed slices.
        unsafe { (self.writebatch_clear)(batch.as_ptr()) }
    }

    pub(crate) fn batch_put(&self, batch: &mut Handle<Batch<L>>, key: &[u8], value: &[u8]) {
        // SAFETY: all pointers are valid, and LevelDB and RocksDB copy the bytes into the batch.
        unsafe { (self.writebatch_put)(batch.as_ptr(), start(key), key.len(), start(value), value.len()) }
    }

    pub(crate) fn batch_delete(&self, batch: &mut Handle<Batch<L>>, key: &[u8]) {
        // SAFETY: all pointers are valid, and LevelDB and RocksDB copy the bytes into the batch.
        unsafe { (self.writebatch_delete)(batch.as_ptr(), start(key), key.len()) }
    }

    /// Opens a database. Until the database is closed, the caller must keep all objects that
    /// `options` borrow.
    pub(crate) fn open(&self, options: &Handle<Options<L>>, name: &CStr) -> Result<Handle<Db<L>>> {
        // SAFETY: the library copies the options and the name.
        let db = self.checked("open", |e| unsafe { (self.open)(options.as_ptr(), name.as_ptr(), e) })?;
        Ok(Handle::new(db, self.close))
    }

    pub(crate) fn put(
        &self,
        db: &Handle<Db<L>>,
        how: &Handle<WriteOptions<L>>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.checked("put", |e| {
            let (db, how) = (db.as_ptr(), how.as_ptr());
            // SAFETY: all pointers are from live handles or borrowed slices.
            unsafe { (self.put)(db, how, start(key), key.len(), start(value), value.len(), e) }
        })
    }

    pub(crate) fn delete(&self, db: &Handle<Db<L>>, how: &Handle<WriteOptions<L>>, key: &[u8]) -> Result<()> {
        // SAFETY: all pointers are from live handles or borrowed slices.
        self.checked("delete", |e| unsafe { (self.delete)(db.as_ptr(), how.as_ptr(), start(key), key.len(), e) })
    }

    pub(crate) fn write(
        &self,
        db: &Handle<Db<L>>,
        how: &Handle<WriteOptions<L>>,
        batch: &mut Handle<Batch<L>>,
    ) -> Result<()> {
        // SAFETY: the library stores a sequence number into the batch, so the batch is borrowed
        // exclusively.
        self.checked("write", |e| unsafe { (self.write)(db.as_ptr(), how.as_ptr(), batch.as_ptr(), e) })
    }

    pub(crate) fn property(&self, db: &Handle<Db<L>>, name: &CStr) -> Option<String> {
        // SAFETY: all pointers are from live handles or borrowed slices.
        let text = unsafe { (self.property_value)(db.as_ptr(), name.as_ptr()) };
        self.take_text(text)
    }

    pub(crate) fn compact_range(&self, db: &Handle<Db<L>>, from: Option<&[u8]>, to: Option<&[u8]>) {
        let (from_start, to_start) = (from.map_or(ptr::null(), start), to.map_or(ptr::null(), start));
        let (from_len, to_len) = (from.map_or(0, <[u8]>::len), to.map_or(0, <[u8]>::len));
        // SAFETY: a null pointer as the start or the end means "unbounded". Any other pointer is
        // from a borrowed slice.
        unsafe { (self.compact_range)(db.as_ptr(), from_start, from_len, to_start, to_len) }
    }

    /// Returns an iterator over `db`. The caller must keep the database open until the iterator is
    /// dropped.
    pub(crate) fn iter(&self, db: &Handle<Db<L>>, how: &Handle<ReadOptions<L>>) -> Handle<Iter<L>> {
        // SAFETY: the library copies the read options.
        Handle::new(unsafe { (self.create_iterator)(db.as_ptr(), how.as_ptr()) }, self.iter_destroy)
    }

    pub(crate) fn valid(&self, iter: &Handle<Iter<L>>) -> bool {
        // SAFETY: all pointers are from live handles or borrowed slices.
        unsafe { (self.iter_valid)(iter.as_ptr()) != 0 }
    }

    /// Returns the entry at the position of the iterator, or `None` if the iterator is not at an
    /// entry. The bytes stay valid until the iterator moves, which requires `&mut`.
    pub(crate) fn entry<'a>(&self, iter: &'a Handle<Iter<L>>) -> Option<(&'a [u8], &'a [u8])> {
        if !self.valid(iter) {
            return None;
        }
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the iterator is at an entry, so both calls return pointers to as many readable
        // bytes as they report. The bytes are stable until the iterator moves.
        unsafe {
            let key = (self.iter_key)(iter.as_ptr(), &mut key_len);
            let value = (self.iter_value)(iter.as_ptr(), &mut value_len);
            Some((borrowed_bytes(key, key_len), borrowed_bytes(value, value_len)))
        }
    }

    /// Visits entries from the current position of the iterator on, until `visit` returns false or
    /// no entries remain. Makes as few calls into the library as possible. Returns the status of
    /// the iterator.
    pub(crate) fn visit(
        &self,
        iter: &mut Handle<Iter<L>>,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let advance = if reverse { self.iter_prev } else { self.iter_next };
        while let Some((key, value)) = self.entry(iter)
            && visit(key, value)
        {
            // SAFETY: the iterator is at an entry, and it is borrowed exclusively.
            unsafe { advance(iter.as_ptr()) }
        }
        self.status(iter)
    }

    /// Returns the first error that the iterator has met since its creation.
    pub(crate) fn status(&self, iter: &Handle<Iter<L>>) -> Result<()> {
        // SAFETY: all pointers are from live handles or borrowed slices.
        self.checked("iterate", |e| unsafe { (self.iter_get_error)(iter.as_ptr(), e) })
    }

    /// Performs a call that may return an error text, and converts that text into an error.
    pub(crate) fn checked<T>(&self, op: &'static str, call: impl FnOnce(Err) -> T) -> Result<T> {
        let mut error = ptr::null_mut();
        let answer = call(&mut error);
        self.take_text(error).map_or(Ok(answer), |text| Err(PeerError::Refused { op, text }))
    }

    /// Copies a text that the library allocated, and frees the original.
    fn take_text(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: a text that the library returns ends in a zero byte. The library allocated it,
        // and this function of the library frees it.
        unsafe {
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.free)(text.cast());
            Some(copy)
        }
    }
}
