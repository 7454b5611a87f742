//! What every C library here shares: how it is loaded and never unloaded, and handles that own its objects.
//!
//! Beside `ffi/common.rs` and the `ffi.rs` of each library this is the only file with unsafe code. Its arguments:
//! - *Code stays mapped.* A library is never unloaded, since these stores start threads that never end; so a
//!   function pointer taken from it is valid for ever.
//! - *Handles are live.* A [`Handle`] owns its object, destroys it exactly once, and is the only way to reach it; what
//!   an object borrows (a database its cache, an iterator its database) is kept by a field or a lifetime of the caller.
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

/// Where C functions put an error text.
pub(crate) type Err = *mut *mut c_char;
/// Bytes as C takes them.
pub(crate) type Ptr = *const c_char;

/// Types that are only ever seen behind a pointer.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub(crate) struct $name { _opaque: [u8; 0] }
    )* };
}

/// A table of C functions named `<prefix><field>`, and the loader that fills it. `bind` names a function that is
/// missing. The types must be transcribed from the library's header.
macro_rules! functions {
    ($table:ident $(<$of:ident>)?; $($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// C functions. To call one is unsafe: the methods of this file are the safe way in.
        pub(crate) struct $table $(<$of>)? { $(pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?),* }

        impl $(<$of>)? $table $(<$of>)? {
            pub(crate) fn bind(library: &libloading::Library, prefix: &str) -> std::result::Result<Self, String> {
                let named = |name: &str| format!("{prefix}{name}");
                // SAFETY: the symbols belong to the library's C API, which keeps its signatures from release to
                // release; the types are transcribed from its header. The pointers live as long as the library, which
                // [`Loaded`] never unloads.
                unsafe {
                    Ok($table { $($name: *library.get(named(stringify!($name))).map_err(
                        |e| format!("no function {}: {e}", named(stringify!($name))))?),* })
                }
            }
        }
    };
}

/// Setters of an options object, each one call of a function in the table `own`: `name(c_function, type in Rust => type in C);`.
macro_rules! setters {
    ($options:ident: $($name:ident($c:ident, $rust:ty => $as:ty);)*) => { $(
        pub(super) fn $name(&self, options: &mut Handle<$options>, value: $rust) {
            // SAFETY: `options` is live and borrowed exclusively; the value is passed by value.
            unsafe { (self.own.$c)(options.as_ptr(), <$as>::from(value)) }
        }
    )* };
}

pub(crate) use {functions, opaque, setters};

/// The libraries of one kind that this process has loaded, each once.
pub(crate) struct Loaded<A: 'static>(Mutex<Vec<(PathBuf, &'static A)>>);

impl<A> Loaded<A> {
    pub(crate) const fn new() -> Loaded<A> {
        Loaded(Mutex::new(Vec::new()))
    }

    /// Loads `file`, a path or a name that the dynamic linker searches for, and binds its functions.
    ///
    /// # Errors
    /// The dynamic linker's text, or `bind`'s.
    pub(crate) fn get(
        &self,
        file: &Path,
        bind: impl FnOnce(&libloading::Library) -> std::result::Result<A, String>,
    ) -> std::result::Result<&'static A, String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner); // a push is all that happens inside
        if let Some((_, api)) = known.iter().find(|(path, _)| path == file) {
            return Ok(api);
        }
        // SAFETY: running the library's initialisers is what loading means; those of the stores that callers name are
        // plain C++ statics.
        let library = unsafe { libloading::Library::new(file) }.map_err(|e| e.to_string())?;
        let library = ManuallyDrop::new(library); // never unloaded
        let api = Box::leak(Box::new(bind(&library)?));
        known.push((file.to_owned(), api));
        Ok(api)
    }
}

/// Owns one object of a library and destroys it on drop.
pub(crate) struct Handle<T> {
    object: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    /// Takes over what a constructor returned; `destroy` must be the destructor of that type.
    pub(crate) fn new(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Handle<T> {
        Handle {
            object: NonNull::new(object).expect("the stores' constructors end the process rather than fail"),
            destroy,
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the constructor that `destroy` belongs to and nobody else destroys it.
        unsafe { (self.destroy)(self.as_ptr()) }
    }
}

/// Objects that may go to another thread, used by one at a time.
///
/// # Safety
/// The library ties the object to no thread.
pub(crate) unsafe trait Movable {}

/// Objects that threads may use at once.
///
/// # Safety
/// The library locks inside, or the object does not change once it is shared: its setters take `&mut`.
pub(crate) unsafe trait Shared: Movable {}

// SAFETY: that is what `Movable` promises.
unsafe impl<T: Movable> Send for Handle<T> {}
// SAFETY: that is what `Shared` promises.
unsafe impl<T: Shared> Sync for Handle<T> {}

/// Marks types of a library: `threads! { Movable: Batch; Shared: Db Options }`; the reason stands at the call.
macro_rules! threads {
    (Movable: $($movable:ident)*; Shared: $($shared:ident)*) => {
        $(
            // SAFETY: see the call of this macro.
            unsafe impl $crate::ffi::Movable for $movable {}
        )*
        $(
            // SAFETY: as above.
            unsafe impl $crate::ffi::Movable for $shared {}
            // SAFETY: as above.
            unsafe impl $crate::ffi::Shared for $shared {}
        )*
    };
}

pub(crate) use threads;

/// Where a slice starts, as C takes it.
pub(crate) fn start(bytes: &[u8]) -> Ptr {
    bytes.as_ptr().cast()
}

/// A slice of a library's memory; an empty one may come with a null pointer.
///
/// # Safety
/// `start` points to `len` bytes that stay unchanged for `'a`, unless `len` is 0.
pub(crate) unsafe fn lent<'a>(start: Ptr, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if len == 0 { &[] } else { unsafe { slice::from_raw_parts(start.cast(), len) } }
}
