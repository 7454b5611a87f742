//! Loads C libraries of other key-value stores, and defines handles that own the objects of a
//! library.
//!
//! All unsafe code of this crate is in this file, in `ffi/common.rs` and in the `ffi.rs` of each
//! library. It relies on two invariants:
//!
//! - *Code stays mapped.* A library is never unloaded, because these stores start threads that
//!   never end. A function pointer from a library is therefore valid until the process ends.
//! - *Handles are live.* A [`Handle`] owns its object, destroys it exactly once, and is the only
//!   way to reach it. An object may borrow other objects: a database borrows its cache, and an
//!   iterator borrows its database. A field or a lifetime in the caller keeps the borrowed objects
//!   alive.
#![allow(unsafe_code)]
pub(crate) mod common;

use std::{
    ffi::c_char,
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    ptr::NonNull,
    slice,
    sync::{Mutex, PoisonError},
};

/// The argument through which a C function returns its error text.
pub(crate) type Err = *mut *mut c_char;
/// A pointer to bytes, in the type that the C functions take.
pub(crate) type Ptr = *const c_char;

/// Declares C types that Rust code uses only through a pointer.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub(crate) struct $name { _opaque: [u8; 0] }
    )* };
}

/// Declares a struct of pointers to C functions and its loader `bind`. The C function of a field
/// is named `<prefix><field>`. If the library lacks a function, `bind` returns the name of the
/// function. The types must be transcribed from the library's header.
macro_rules! functions {
    ($table:ident $(<$of:ident>)?; $($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// Pointers to C functions. A call of one of them is unsafe. The methods of this module are
        /// the safe interface.
        pub(crate) struct $table $(<$of>)? { $(pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?),* }

        impl $(<$of>)? $table $(<$of>)? {
            pub(crate) fn bind(library: &libloading::Library, prefix: &str) -> std::result::Result<Self, String> {
                let named = |name: &str| format!("{prefix}{name}");
                // SAFETY: the symbols are part of the library's C API, whose signatures do not
                // change between releases. The types are transcribed from its header. The pointers
                // are valid as long as the library is loaded, and [`Loaded`] never unloads it.
                unsafe {
                    Ok($table { $($name: *library.get(named(stringify!($name))).map_err(
                        |e| format!("no function {}: {e}", named(stringify!($name))))?),* })
                }
            }
        }
    };
}

/// Declares setters of an options object. Each line has the form `name(c_function, type in Rust =>
/// type in C);`. A setter calls its function in the table `extra`.
macro_rules! setters {
    ($options:ident: $($name:ident($c:ident, $rust:ty => $as:ty);)*) => { $(
        pub(super) fn $name(&self, options: &mut Handle<$options>, value: $rust) {
            // SAFETY: `options` is live and borrowed exclusively; the value is passed by value.
            unsafe { (self.extra.$c)(options.as_ptr(), <$as>::from(value)) }
        }
    )* };
}

pub(crate) use {functions, opaque, setters};

/// The libraries of one kind (LevelDB, for example) that this process has loaded. Each library is
/// loaded once.
pub(crate) struct Loaded<A: 'static>(Mutex<Vec<(PathBuf, &'static A)>>);

impl<A> Loaded<A> {
    pub(crate) const fn new() -> Loaded<A> {
        Loaded(Mutex::new(Vec::new()))
    }

    /// Loads the library in `file` and binds its functions. `file` is a path, or a name that the
    /// dynamic linker searches for.
    ///
    /// # Errors
    /// The error text of the dynamic linker, or the name of a missing function from `bind`.
    pub(crate) fn get(
        &self,
        file: &Path,
        bind: impl FnOnce(&libloading::Library) -> std::result::Result<A, String>,
    ) -> std::result::Result<&'static A, String> {
        // The lock is held while the library is loaded, so that each library is loaded only once.
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, api)) = loaded.iter().find(|(path, _)| path == file) {
            return Ok(api);
        }
        // SAFETY: loading a library runs its initialisers. Those of the supported stores only
        // initialise plain C++ statics.
        let library = unsafe { libloading::Library::new(file) }.map_err(|e| e.to_string())?;
        let library = ManuallyDrop::new(library); // never unloaded
        let api = Box::leak(Box::new(bind(&library)?));
        loaded.push((file.to_owned(), api));
        Ok(api)
    }
}

/// Owns one object of a C library. Dropping the handle destroys the object.
pub(crate) struct Handle<T> {
    object: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    /// Takes ownership of an object that a C constructor returned. `destroy` must be the destructor
    /// of the object's type.
    pub(crate) fn new(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Handle<T> {
        Handle {
            object: NonNull::new(object).expect("the stores' constructors abort instead of returning null"),
            destroy,
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the C constructor that belongs to `destroy` returned this pointer, and only this
        // handle destroys the object.
        unsafe { (self.destroy)(self.as_ptr()) }
    }
}

/// Marks C objects that may move to another thread but are used by only one thread at a time.
///
/// # Safety
/// The library does not tie the object to a thread.
pub(crate) unsafe trait SendObject {}

/// Marks C objects that several threads may use at the same time.
///
/// # Safety
/// The library locks the object internally. Or the object does not change after it is shared,
/// because its setters take `&mut`.
pub(crate) unsafe trait SyncObject: SendObject {}

// SAFETY: an object that is not tied to a thread may move. This is the contract of `SendObject`.
unsafe impl<T: SendObject> Send for Handle<T> {}
// SAFETY: several threads may use the object at the same time. This is the contract of
// `SyncObject`.
unsafe impl<T: SyncObject> Sync for Handle<T> {}

/// Marks the types of a library as movable to other threads, or as shared between threads. An
/// example is `threads! { SendObject: Batch; SyncObject: Db Options }`. Each use of the macro has
/// a comment with the safety argument.
macro_rules! threads {
    (SendObject: $($movable:ident)*; SyncObject: $($shared:ident)*) => {
        $(
            // SAFETY: the use of this macro has a comment that gives the argument for each type.
            unsafe impl $crate::ffi::SendObject for $movable {}
        )*
        $(
            // SAFETY: the use of this macro has a comment that gives the argument for each type.
            unsafe impl $crate::ffi::SendObject for $shared {}
            // SAFETY: the use of this macro has a comment that gives the argument for each type.
            unsafe impl $crate::ffi::SyncObject for $shared {}
        )*
    };
}

pub(crate) use threads;

/// Returns a C pointer to the first byte of a Rust slice.
pub(crate) fn start(bytes: &[u8]) -> Ptr {
    bytes.as_ptr().cast()
}

/// Returns a slice of memory that a library owns. If the slice is empty, the library may have
/// returned a null pointer.
///
/// # Safety
/// `start` points to `len` bytes that do not change during `'a`, unless `len` is 0.
pub(crate) unsafe fn borrowed_bytes<'a>(start: Ptr, len: usize) -> &'a [u8] {
    // SAFETY: the caller guarantees that `start` points to `len` bytes that do not change.
    if len == 0 { &[] } else { unsafe { slice::from_raw_parts(start.cast(), len) } }
}
