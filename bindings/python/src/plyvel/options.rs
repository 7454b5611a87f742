//! The options of an open and of a repair, by plyvel's names.
//!
//! Numbers outside LevelDB's bounds are changed to the nearest bound, so that every number that
//! LevelDB accepts is accepted.
use crate::{arguments::Bytes, order::Order};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyString},
};
use std::{str, sync::Arc};
use terrace::{Bloom, Codec, Recovery};

/// Number of open files that are not SSTables but that LevelDB's limit includes.
const OTHER_FILES: u64 = 10;

/// Options of the engine, and the custom order of keys.
pub struct Options {
    pub numbers: terrace::Options,
    pub order: Option<Arc<Order>>,
}

impl Options {
    /// Returns the options of the preset `default` with the values of the keyword arguments
    /// `named`. Error messages name the Python function `function`, which got the arguments. As in
    /// LevelDB, an open creates no store unless the caller requests it, and skips unreadable parts
    /// of a WAL.
    pub fn new(function: &str, named: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
        let mut numbers = terrace::Options::default();
        numbers.create_if_missing = false;
        numbers.recovery = Recovery::Salvage;
        let (mut compare, mut name) = (None, None);
        for (key, value) in named.into_iter().flatten() {
            let key = key.cast::<PyString>()?.to_cow()?.into_owned();
            match &*key {
                "comparator" => compare = Some(value).filter(|value| !value.is_none()),
                "comparator_name" => name = Some(value).filter(|value| !value.is_none()),
                other => set(&mut numbers, function, other, &value)?,
            }
        }
        let order = order(compare, name)?.map(Arc::new);
        if let Some(order) = &order {
            numbers = numbers.comparator(order.clone());
        }
        Ok(Options { numbers, order })
    }
}

/// Sets an option to the value of the argument `name`.
fn set(options: &mut terrace::Options, function: &str, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let flag = || {
        Ok::<bool, PyErr>(value.extract::<Option<bool>>().map_err(|_| wrong(name, "a bool", value))?.unwrap_or(false))
    };
    match name {
        "create_if_missing" => options.create_if_missing = flag()?,
        "error_if_exists" => options.error_if_exists = flag()?,
        "paranoid_checks" => options.paranoid_checks = flag()?,
        "compression" => options.compression = codec(value)?,
        "write_buffer_size"
        | "max_open_files"
        | "lru_cache_size"
        | "block_size"
        | "block_restart_interval"
        | "max_file_size"
        | "bloom_filter_bits" => {
            if !value.is_none() {
                set_number(options, name, number(name, value)?);
            }
        }
        other => return Err(PyTypeError::new_err(format!("{function}() has no argument '{other}'"))),
    }
    Ok(())
}

fn set_number(options: &mut terrace::Options, name: &str, number: u64) {
    match name {
        "write_buffer_size" => options.write_buffer_size = number.clamp(64 << 10, 1 << 30),
        "max_open_files" => options.max_open_files = number.clamp(64 + OTHER_FILES, 50_000) - OTHER_FILES,
        "lru_cache_size" => options.block_cache_size = number.min(1 << 40),
        "block_size" => options.block_size = number.clamp(1 << 10, 4 << 20),
        "block_restart_interval" => options.block_restart_interval = number.clamp(1, 1024),
        "max_file_size" => options.target_file_size = number.clamp(1 << 20, 1 << 30),
        _ if number > 0 => *options = options.clone().filter_policy(Arc::new(Bloom::new(number.min(100) as u32))),
        _ => {}
    }
}

/// Returns the number in `value`.
fn number(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number: i64 = value.extract().map_err(|_| wrong(name, "an int", value))?;
    u64::try_from(number).map_err(|_| PyValueError::new_err(format!("'{name}' must not be negative, as {number} is")))
}

fn codec(value: &Bound<'_, PyAny>) -> PyResult<Codec> {
    if value.is_none() {
        return Ok(Codec::None);
    }
    let text = match (value.cast::<PyString>(), value.cast::<PyBytes>()) {
        (Ok(text), _) => text.to_cow()?.into_owned(),
        (_, Ok(bytes)) => String::from_utf8_lossy(bytes.as_bytes()).into_owned(),
        _ => return Err(wrong("compression", "None or a str", value)),
    };
    match &*text {
        "snappy" => Ok(Codec::Snappy),
        other => Err(PyValueError::new_err(format!("'compression' must be None or 'snappy', not '{other}'"))),
    }
}

fn order(compare: Option<Bound<'_, PyAny>>, name: Option<Bound<'_, PyAny>>) -> PyResult<Option<Order>> {
    if let Some(name) = &name
        && !name.is_instance_of::<PyBytes>()
    {
        return Err(wrong("comparator_name", "bytes", name));
    }
    let (compare, name) = match (compare, name) {
        (Some(compare), Some(name)) => (compare, name),
        (None, None) => return Ok(None),
        _ => return Err(PyValueError::new_err("'comparator' and 'comparator_name' must be given together")),
    };
    if !compare.is_callable() {
        return Err(wrong("comparator", "callable", &compare));
    }
    let bytes: Bytes<'_> = name.extract()?;
    match str::from_utf8(&bytes) {
        Ok(name) if !name.starts_with("leveldb.") => Ok(Some(Order::new(name.into(), compare.unbind()))),
        Ok(name) => {
            Err(PyValueError::new_err(format!("'comparator_name' must not be {name:?}: LevelDB has reserved it")))
        }
        Err(_) => Err(PyValueError::new_err("'comparator_name' must be UTF-8")),
    }
}

fn wrong(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    match value.get_type().name() {
        Ok(kind) => PyTypeError::new_err(format!("'{name}' must be {wanted}, not {kind}")),
        Err(error) => error,
    }
}
