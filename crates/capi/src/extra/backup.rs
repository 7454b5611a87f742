//! C functions on backups.
#![expect(unsafe_code, reason = "C passes zero-terminated strings and arrays")]
use crate::{
    db::Db,
    error::{Failure, Kind, Message},
    extra::kind,
    memory,
};
use std::{io, slice};
use terrace_backup::{Backups, CreateOptions, Error, Result};

impl From<Error> for Message {
    fn from(error: Error) -> Message {
        let its_kind = match &error {
            Error::Store(store) => return store.clone().into(),
            Error::Damaged { .. } => Kind::Corruption,
            Error::Missing { .. } => Kind::NotFound,
            Error::Invalid(_) => Kind::InvalidArgument,
            Error::Io { source, .. } if source.kind() == io::ErrorKind::Unsupported => Kind::NotSupported,
            _ => Kind::IoError,
        };
        let message = Message::new(its_kind, error.to_string());
        match error {
            Error::InUse(_) => Message { number: kind::IN_USE, ..message },
            error if error.is_no_space() => Message { number: kind::NO_SPACE, ..message },
            _ => message,
        }
    }
}

/// # Safety
/// `directory` is zero-terminated, and so is `scratch` if it is not `NULL`.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_backup_create(
    db: &Db,
    directory: *const u8,
    scratch: *const u8,
    bytes_per_second: u64,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let directory = unsafe { memory::path(directory) };
    // SAFETY: guaranteed by the caller.
    let scratch = (!scratch.is_null()).then(|| unsafe { memory::path(scratch) });
    let options = CreateOptions::default().bytes_per_second(bytes_per_second);
    let options = scratch.into_iter().fold(options, CreateOptions::scratch);
    let made = Backups::open(directory).and_then(|backups| backups.create(&db.0, &options));
    errptr.of(made).map_or(0, |backup| backup.id)
}

/// # Safety
/// `directory` is zero-terminated. `ids` has space for `capacity` numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_backup_list(
    directory: *const u8,
    ids: *mut u64,
    capacity: usize,
    errptr: &mut Failure,
) -> usize {
    // SAFETY: guaranteed by the caller.
    let directory = unsafe { memory::path(directory) };
    let listed = Backups::open(directory).and_then(|backups| backups.list());
    let Some(listed) = errptr.of(listed) else { return 0 };
    let good: Vec<u64> = listed.into_iter().filter_map(|backup| Some(backup.ok()?.id)).collect();
    if capacity > 0 {
        // SAFETY: guaranteed by the caller.
        let ids = unsafe { slice::from_raw_parts_mut(ids, capacity) };
        ids.iter_mut().zip(&good).for_each(|(id, found)| *id = *found);
    }
    good.len()
}

/// # Safety
/// `directory` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_backup_verify(directory: *const u8, id: u64, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    let directory = unsafe { memory::path(directory) };
    errptr.of(verify(directory, id).map_err(Message::from).and_then(|problem| problem.map_or(Ok(()), Err)));
}

/// Returns the first problem of the verified backups.
fn verify(directory: &std::path::Path, id: u64) -> Result<Option<Message>> {
    let verified = Backups::open(directory)?.verify((id > 0).then_some(id))?;
    Ok(verified.problems.into_iter().next().map(|problem| {
        let file = problem.file.map(|file| format!(", {file}")).unwrap_or_default();
        Message::new(Kind::Corruption, format!("backup {}{file}: {}", problem.id, problem.detail))
    }))
}

/// # Safety
/// `directory` and `name` are zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_backup_restore(
    directory: *const u8,
    id: u64,
    name: *const u8,
    errptr: &mut Failure,
) -> u64 {
    // SAFETY: guaranteed by the caller.
    let [directory, name] = [directory, name].map(|path| unsafe { memory::path(path) });
    let restored = Backups::open(directory).and_then(|backups| {
        let id = if id > 0 { id } else { backups.newest()?.unwrap_or(0) };
        backups.restore(id, name)
    });
    errptr.of(restored).map_or(0, |restored| restored.sequence)
}

/// # Safety
/// `directory` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_backup_remove(directory: *const u8, id: u64, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    let directory = unsafe { memory::path(directory) };
    errptr.of(Backups::open(directory).and_then(|backups| backups.remove(id)));
}

/// # Safety
/// `directory` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_backup_purge(directory: *const u8, keep: usize, errptr: &mut Failure) -> usize {
    // SAFETY: guaranteed by the caller.
    let directory = unsafe { memory::path(directory) };
    let purged = Backups::open(directory).and_then(|backups| backups.purge(keep));
    errptr.of(purged).map_or(0, |purged| purged.removed.len())
}
