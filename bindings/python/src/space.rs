//! Key spaces: the default one of a store, and column families.
use crate::{store::Store, walk::Walk};
use pyo3::prelude::*;
use std::sync::Arc;
use terrace::{ColumnFamily, Cursor, Db, ReadOptions, Result};

/// A key space of a store.
#[derive(Clone)]
pub struct Space {
    pub store: Arc<Store>,
    /// The engine's handle of the family; `None` for the default key space. Closing the store drops
    /// the handle, which would otherwise keep the directory locked.
    family: Option<Arc<Walk<ColumnFamily>>>,
}

impl Space {
    /// Returns the default key space of `store`.
    pub fn of(store: Arc<Store>) -> Space {
        Space { store, family: None }
    }

    /// Returns the key space of the column family that `open` returns.
    pub fn open(
        py: Python<'_>,
        store: Arc<Store>,
        open: impl Send + FnOnce(&Db) -> Result<ColumnFamily>,
    ) -> PyResult<Space> {
        let family = Some(store.walk(py, open)?);
        Ok(Space { store, family })
    }

    /// Calls `act` with the open store, and with the family unless it is the default one.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        act: impl Send + FnOnce(&Db, Option<&ColumnFamily>) -> Result<T>,
    ) -> PyResult<T> {
        self.store.run(py, |db| act(db, self.family()?.as_ref()))
    }

    /// Returns a handle of the family; `None` for the default one. Fails if the store is closed.
    pub fn family(&self) -> Result<Option<ColumnFamily>> {
        self.family.as_ref().map(|family| family.with(|family| family.clone())).transpose()
    }

    /// Returns a cursor over a range of keys.
    pub fn cursor(&self, db: &Db, options: ReadOptions) -> Result<Cursor> {
        Ok(match self.family()? {
            None => db.cursor(options),
            Some(family) => family.cursor(options),
        })
    }
}
