//! Converts Python arguments to bytes and paths. Arguments of other types raise `TypeError`.
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyByteArray, PyBytes, PyMemoryView, PyString},
};
use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    ops::Deref,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// A key or a value. A Python `bytes` object is borrowed. A `bytearray`, a `memoryview` or another
/// object with a buffer is copied. A `str` or a list of integers is refused.
#[derive(Clone)]
pub struct Bytes<'a>(Cow<'a, [u8]>);

impl Bytes<'_> {
    /// Returns an owned copy.
    pub fn into_owned(self) -> Vec<u8> {
        self.0.into_owned()
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(Cow::Owned(bytes))
    }
}

impl From<Bytes<'_>> for Vec<u8> {
    fn from(bytes: Bytes<'_>) -> Vec<u8> {
        bytes.0.into_owned()
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Bytes<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Bytes<'a>> {
        if object.is_instance_of::<PyBytes>() {
            return Cow::extract(object).map(Bytes);
        }
        Ok(Bytes(Cow::Owned(copied(&object)?.to_vec())))
    }
}

/// Returns a copy of the object's bytes. The copy may outlive the object.
fn copied(object: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.clone().into());
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(bytes.clone().into());
    }
    if let Ok(view) = PyMemoryView::from(object) {
        return Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?.into());
    }
    let kind = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("must be bytes, bytearray or memoryview, not {kind}")))
}

/// Keys that the caller passed as any Python iterable.
pub struct Keys(pub Vec<PyBackedBytes>);

impl<'py> FromPyObject<'_, 'py> for Keys {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Keys> {
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("must be an iterable of keys, such as a list of bytes, not str"));
        }
        object.try_iter()?.map(|key| copied(&key?)).collect::<PyResult<_>>().map(Keys)
    }
}

/// A path in the forms of Python's standard library: `str`, `bytes` or `os.PathLike` of either.
pub struct Path(pub PathBuf);

impl<'py> FromPyObject<'_, 'py> for Path {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Path> {
        let plain = object.py().import("os")?.call_method1("fspath", (object,))?;
        match plain.cast::<PyBytes>() {
            Ok(bytes) => Ok(Path(OsStr::from_bytes(bytes.as_bytes()).into())),
            Err(_) => Ok(Path(plain.extract::<OsString>()?.into())),
        }
    }
}
