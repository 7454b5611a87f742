//! `leveldb_options_t`, `leveldb_readoptions_t` and `leveldb_writeoptions_t`.
//!
//! Numbers outside LevelDB's bounds are changed to the nearest bound. The library therefore
//! accepts every value that LevelDB accepts.
#![expect(unsafe_code, reason = "C passes zero-terminated strings")]
use crate::{
    comparator::{Comparator, Order},
    env::{Env, MemoryStores},
    error::Failure,
    filter::Filter,
    logger::Logger,
    machine::Cache,
    memory,
};
use libc::{c_int, c_void};
use std::sync::Arc;
use terrace::{Codec, Error, FilterPolicy, Result, Snapshot};

/// Number of open files that are not SSTables. LevelDB's limit of open files includes these files,
/// while Terrace's limit counts only SSTables.
const OTHER_FILES: c_int = 10;

/// `leveldb_options_t`.
pub struct Options {
    numbers: terrace::Options,
    /// The number of a compression that does not exist, if the caller requested one. An open then
    /// fails.
    unknown_compression: Option<c_int>,
    order: Option<Arc<Order>>,
    filter: Option<Arc<dyn FilterPolicy>>,
    pub logger: Option<Arc<Logger>>,
    /// The stores of an environment in memory. `None`: directories of the operating system.
    pub stores: Option<MemoryStores>,
}

impl Options {
    /// Returns the options for an open. The store uses the comparator, the filter policy and the
    /// logger until it is closed.
    pub fn resolve(&self) -> Result<terrace::Options> {
        if let Some(number) = self.unknown_compression {
            return Err(Error::Invalid(format!(
                "compression {number} does not exist; use 0 (none), 1 (Snappy) or 2 (Zstandard)"
            )));
        }
        let mut options = self.numbers.clone();
        if let Some(order) = &self.order {
            options = options.comparator(order.clone());
        }
        if let Some(filter) = &self.filter {
            options = options.filter_policy(filter.clone());
        }
        if let Some(logger) = &self.logger {
            options.info_log = false; // as in LevelDB, the lines go to the logger instead of `LOG`
            options = options.listener(logger.clone());
        }
        Ok(options)
    }
}

/// Returns the options of the default preset. As in LevelDB, an open with these options does not
/// create a missing store.
fn defaults() -> terrace::Options {
    let mut options = terrace::Options::default();
    options.create_if_missing = false;
    options.recovery = terrace::Recovery::Salvage; // LevelDB skips unreadable parts of a WAL
    options
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_create() -> Box<Options> {
    Box::new(Options {
        numbers: defaults(),
        unknown_compression: None,
        order: None,
        filter: None,
        logger: None,
        stores: None,
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_destroy(options: Option<Box<Options>>) {
    drop(options);
}

/// # Safety
/// `name` is zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_options_preset(options: &mut Options, name: *const u8, errptr: &mut Failure) {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { memory::text(name) };
    let preset = terrace::Options::preset(&String::from_utf8_lossy(name));
    if let Some(preset) = errptr.of(preset) {
        let before = std::mem::replace(&mut options.numbers, preset);
        options.numbers.create_if_missing = before.create_if_missing;
        options.numbers.error_if_exists = before.error_if_exists;
        options.numbers.paranoid_checks = before.paranoid_checks;
        options.numbers.recovery = before.recovery;
    }
}

/// # Safety
/// `name` and `value` are zero-terminated.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_options_set(
    options: &mut Options,
    name: *const u8,
    value: *const u8,
    errptr: &mut Failure,
) {
    // SAFETY: guaranteed by the caller.
    let (name, value) = unsafe { (memory::text(name), memory::text(value)) };
    errptr.of(options.numbers.set(&String::from_utf8_lossy(name), &String::from_utf8_lossy(value)));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_comparator(options: &mut Options, comparator: Option<&Comparator>) {
    options.order = comparator.map(|comparator| comparator.order.clone());
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_filter_policy(options: &mut Options, filter: Option<&Filter>) {
    options.filter = filter.map(|filter| filter.policy.clone());
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_create_if_missing(options: &mut Options, yes: u8) {
    options.numbers.create_if_missing = yes != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_error_if_exists(options: &mut Options, yes: u8) {
    options.numbers.error_if_exists = yes != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_paranoid_checks(options: &mut Options, yes: u8) {
    options.numbers.paranoid_checks = yes != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_env(options: &mut Options, env: Option<&Env>) {
    options.stores = env.and_then(|env| env.0.clone());
}

/// Has no effect. LevelDB's C interface cannot create a logger, so `_logger` is always `NULL`. To
/// set a logger, call [`terrace_options_set_logger`](crate::logger).
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_info_log(_options: &mut Options, _logger: *mut c_void) {}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_write_buffer_size(options: &mut Options, bytes: usize) {
    options.numbers.write_buffer_size = (bytes as u64).clamp(64 << 10, 1 << 30);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_open_files(options: &mut Options, files: c_int) {
    options.numbers.max_open_files = (files.clamp(64 + OTHER_FILES, 50_000) - OTHER_FILES) as u64;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_cache(options: &mut Options, cache: Option<&Cache>) {
    // A size of 0 would mean: as large as the memory budget allows.
    options.numbers.block_cache_size = cache.map_or_else(|| defaults().block_cache_size, |cache| cache.bytes.max(1));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_size(options: &mut Options, bytes: usize) {
    options.numbers.block_size = (bytes as u64).clamp(1 << 10, 4 << 20);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_restart_interval(options: &mut Options, keys: c_int) {
    options.numbers.block_restart_interval = keys.clamp(1, 1024) as u64;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_file_size(options: &mut Options, bytes: usize) {
    options.numbers.target_file_size = (bytes as u64).clamp(1 << 20, 1 << 30);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_compression(options: &mut Options, number: c_int) {
    options.unknown_compression = None;
    match number {
        0 => options.numbers.compression = Codec::None,
        1 => options.numbers.compression = Codec::Snappy,
        2 => options.numbers.compression = Codec::Zstd,
        other => options.unknown_compression = Some(other),
    }
}

/// `leveldb_readoptions_t`.
pub struct ReadOptions {
    verify_checksums: bool,
    fill_cache: bool,
    snapshot: Option<Snapshot>,
}

impl ReadOptions {
    /// Returns the engine's read options.
    pub fn resolve(&self) -> terrace::ReadOptions {
        let options = terrace::ReadOptions::new().verify_checksums(self.verify_checksums).fill_cache(self.fill_cache);
        match &self.snapshot {
            Some(snapshot) => options.snapshot(snapshot),
            None => options,
        }
    }

    /// Returns the engine's read options for the keys from a start (included) to a limit
    /// (excluded).
    pub fn within(&self, (start, limit): (Option<&[u8]>, Option<&[u8]>)) -> terrace::ReadOptions {
        let mut options = self.resolve();
        if let Some(start) = start {
            options = options.from(start);
        }
        if let Some(limit) = limit {
            options = options.to(limit);
        }
        options
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_create() -> Box<ReadOptions> {
    Box::new(ReadOptions { verify_checksums: false, fill_cache: true, snapshot: None })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_destroy(options: Option<Box<ReadOptions>>) {
    drop(options);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_verify_checksums(options: &mut ReadOptions, yes: u8) {
    options.verify_checksums = yes != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_fill_cache(options: &mut ReadOptions, yes: u8) {
    options.fill_cache = yes != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_snapshot(options: &mut ReadOptions, snapshot: Option<&Snapshot>) {
    options.snapshot = snapshot.cloned();
}

/// `leveldb_writeoptions_t`.
pub struct WriteOptions(pub terrace::WriteOptions);

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_create() -> Box<WriteOptions> {
    Box::new(WriteOptions(terrace::WriteOptions::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_destroy(options: Option<Box<WriteOptions>>) {
    drop(options);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_set_sync(options: &mut WriteOptions, yes: u8) {
    options.0.sync = yes != 0;
}
