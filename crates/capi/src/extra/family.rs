//! `terrace_column_family_t`: a column family of an open store.
#![expect(unsafe_code, reason = "C passes zero-terminated strings, and arrays of them")]
use crate::{
    db::Db,
    error::{Failure, Kind, Message},
    memory,
    options::Options,
};
use std::{ptr, str};

/// `terrace_column_family_t`. It keeps the engine's handle of the store, so a call after the close
/// of the store is safe.
pub struct Family(pub terrace::ColumnFamily);

/// Returns the name of a family.
///
/// # Safety
/// `name` is zero-terminated.
unsafe fn family_name<'a>(name: *const u8) -> Result<&'a str, Message> {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { memory::text(name) };
    let bad = |_| Message::new(Kind::InvalidArgument, "the name of a column family is not UTF-8");
    str::from_utf8(name).map_err(bad)
}

/// # Safety
/// `name` is zero-terminated. Both arrays have `num_families` elements, and the names are
/// zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_open_column_families(
    options: &Options,
    name: *const u8,
    num_families: usize,
    names: *const *const u8,
    families: *mut Option<Box<Family>>,
    errptr: &mut Failure,
) -> Option<Box<Db>> {
    // SAFETY: guaranteed by the caller.
    let (path, names) = unsafe { (memory::path(name), memory::array(names, num_families)) };
    // SAFETY: guaranteed by the caller.
    let names: Result<Vec<_>, _> = names.iter().map(|name| unsafe { family_name(*name) }).collect();
    let (options, names) = (errptr.of(options.resolve())?, errptr.of(names)?);
    let (db, opened) = errptr.of(terrace::Db::open_cf(path, options, &names))?;
    for (at, family) in opened.into_iter().enumerate() {
        // SAFETY: `at` is below `num_families`. The element may be uninitialised, so it is not
        // dropped.
        unsafe { ptr::write(families.add(at), Some(Box::new(Family(family)))) };
    }
    Some(Box::new(Db(db)))
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_create_column_family(
    db: &Db,
    name: *const u8,
    errptr: &mut Failure,
) -> Option<Box<Family>> {
    // SAFETY: guaranteed by the caller.
    let name = errptr.of(unsafe { family_name(name) })?;
    Some(Box::new(Family(errptr.of(db.0.create_cf(name))?)))
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_get_column_family(db: &Db, name: *const u8, errptr: &mut Failure) -> Option<Box<Family>> {
    // SAFETY: guaranteed by the caller.
    let name = errptr.of(unsafe { family_name(name) })?;
    Some(Box::new(Family(errptr.of(db.0.cf(name))?)))
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_drop_column_family(db: &Db, name: *const u8, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    if let Some(name) = errptr.of(unsafe { family_name(name) }) {
        errptr.of(db.0.drop_cf(name));
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_column_family_destroy(family: Option<Box<Family>>) {
    drop(family);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_column_family_name(family: &Family, length: &mut usize) -> *const u8 {
    *length = family.0.name().len();
    family.0.name().as_ptr()
}

/// Returns an array from `malloc` of strings from `malloc`, which the C program frees with
/// `terrace_list_column_families_destroy`.
#[unsafe(no_mangle)]
extern "C" fn terrace_list_column_families(db: &Db, count: &mut usize) -> *mut *mut u8 {
    let names: Vec<*mut u8> = db.0.cf_names().into_iter().map(memory::copy_text).collect();
    *count = names.len();
    memory::copy_array(&names)
}

/// # Safety
/// The arguments are a result of `terrace_list_column_families`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_list_column_families_destroy(names: *mut *mut u8, count: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        memory::array(names, count).iter().for_each(|name| memory::free(*name));
        memory::free(names.cast());
    }
}
