//! A cursor over a sorted run. It reads the SSTables of the run one after the other, and opens an
//! SSTable only when it needs the first entry from it.
use crate::{Error, Result, version::Run};
use std::sync::Arc;
use terrace_format::{KeyOrder, TableId};
use terrace_storage::placement::{Cursor, ObjectId, Storage, TableReadOptions};

/// Iterates over the entries of a run.
pub struct RunCursor {
    storage: Arc<dyn Storage>,
    order: KeyOrder,
    run: Run,
    how: TableReadOptions,
    at: usize,
    table: Option<Cursor>,
}

impl RunCursor {
    /// Makes a cursor that is at no entry yet.
    #[inline]
    pub fn new(storage: Arc<dyn Storage>, order: KeyOrder, run: Run, how: TableReadOptions) -> RunCursor {
        RunCursor { storage, order, run, how, at: 0, table: None }
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(|cursor| cursor.valid())
    }

    /// Returns whether the run may have entries of the user key of `target`, according to the key
    /// ranges and the filters of its SSTables.
    pub fn may_have(&self, target: &[u8]) -> Result<bool> {
        match self.run.find(&self.order, target) {
            Some(table) => Ok(table.open(&*self.storage)?.may_have(target)?),
            None => Ok(false),
        }
    }

    /// Moves the cursor to the first entry at or after the internal key `target`. If there is no
    /// such entry, the cursor is at no entry afterwards.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let at = self.run.first_at_or_after(&self.order, target);
        if let Some(cursor) = self.enter(at)? {
            cursor.seek(target)?;
        }
        self.forward_to_entry()
    }

    /// Moves the cursor to the first entry of the run, if there is one.
    pub fn seek_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.enter(0)? {
            cursor.seek_first()?;
        }
        self.forward_to_entry()
    }

    /// Moves the cursor to the last entry of the run, if there is one.
    pub fn seek_last(&mut self) -> Result<()> {
        if let Some(cursor) = self.enter(self.run.len().wrapping_sub(1))? {
            cursor.seek_last()?;
        }
        self.backward_to_entry()
    }

    /// Moves the cursor, which must be at an entry, to the next entry of the run. If there is no
    /// next entry, the cursor is at no entry afterwards.
    pub fn next(&mut self) -> Result<()> {
        self.entries_mut().next()?;
        self.forward_to_entry()
    }

    /// Moves the cursor, which must be at an entry, to the previous entry of the run. If there is
    /// no previous entry, the cursor is at no entry afterwards.
    pub fn prev(&mut self) -> Result<()> {
        self.entries_mut().prev()?;
        self.backward_to_entry()
    }

    /// Moves the cursor to the first entry after the current block of the SSTable. The cursor must
    /// be at an entry.
    pub fn skip_block(&mut self) -> Result<()> {
        self.entries_mut().skip_block()?;
        self.forward_to_entry()
    }

    /// Returns the cursor of the current SSTable. The run cursor must be at an entry.
    #[inline]
    pub fn entries(&self) -> &Cursor {
        self.table.as_ref().expect("the cursor is at an entry")
    }

    /// Returns the cursor of the current SSTable, so that the caller can move it within its
    /// decoded entries.
    #[inline]
    pub fn entries_mut(&mut self) -> &mut Cursor {
        self.table.as_mut().expect("the cursor is at an entry")
    }

    /// Returns the corruption error for a seek after which the cursor is at an entry outside of the
    /// range that it should have reached.
    pub fn out_of_order(&self) -> Error {
        let table = self.run.get(self.at).map_or(TableId(0), |table| table.meta.id);
        let place = self.storage.place_of(ObjectId::Table(table));
        Error::corrupt("table", place, 0, "its keys are not in the order of its index and the manifest")
    }

    fn enter(&mut self, at: usize) -> Result<Option<&mut Cursor>> {
        let Some(table) = self.run.get(at) else {
            self.table = None;
            return Ok(None);
        };
        if self.table.is_none() || self.at != at {
            self.table = None; // after an error the cursor must not be positioned
            self.table = Some(table.open(&*self.storage)?.cursor(self.how)?);
            self.at = at;
        }
        Ok(self.table.as_mut())
    }

    fn forward_to_entry(&mut self) -> Result<()> {
        while self.table.is_some() && !self.valid() {
            if let Some(cursor) = self.enter(self.at + 1)? {
                cursor.seek_first()?;
            }
        }
        Ok(())
    }

    fn backward_to_entry(&mut self) -> Result<()> {
        while self.table.is_some() && !self.valid() {
            if let Some(cursor) = self.enter(self.at.wrapping_sub(1))? {
                cursor.seek_last()?;
            }
        }
        Ok(())
    }
}
