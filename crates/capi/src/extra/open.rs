//! C functions that open stores, also read-only and in memory, and a close that reports its error.
#![expect(unsafe_code, reason = "C passes zero-terminated strings")]
use crate::{db::Db, error::Failure, memory, options::Options};

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_open(options: &Options, name: *const u8, errptr: &mut Failure) -> Option<Box<Db>> {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    let options = errptr.of(options.resolve())?;
    Some(Box::new(Db(errptr.of(terrace::Db::open(path, options))?)))
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_open_read_only(
    options: &Options,
    name: *const u8,
    errptr: &mut Failure,
) -> Option<Box<Db>> {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { memory::path(name) };
    let options = errptr.of(options.resolve())?;
    Some(Box::new(Db(errptr.of(terrace::Db::open_read_only(path, options))?)))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_open_in_memory(options: &Options, errptr: &mut Failure) -> Option<Box<Db>> {
    let options = errptr.of(options.resolve())?;
    Some(Box::new(Db(errptr.of(terrace::Db::open_in_memory(options))?)))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_close(db: Box<Db>, errptr: &mut Failure) {
    errptr.of(db.0.close());
}
