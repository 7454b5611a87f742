//! A cursor over a run: its tables one after the other, each opened when the cursor reaches it.
use crate::{Result, version::Run};
use std::{cmp::Ordering, sync::Arc};
use terrace_format::KeyOrder;
use terrace_storage::placement::{Cursor, EntryRef, Placement, ReadHow};

/// Walks the entries of a run's tables.
pub struct RunCursor {
    placement: Arc<dyn Placement>,
    order: KeyOrder,
    run: Run,
    how: ReadHow,
    at: usize,
    table: Option<Box<dyn Cursor>>,
}

impl RunCursor {
    /// Stands nowhere yet.
    pub fn new(placement: Arc<dyn Placement>, order: KeyOrder, run: Run, how: ReadHow) -> RunCursor {
        RunCursor { placement, order, run, how, at: 0, table: None }
    }

    /// Whether it stands on an entry.
    pub fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(|cursor| cursor.valid())
    }

    /// To the first entry at or after `target`.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let ends_before = |bound: &[u8]| self.order.internal(bound, target) == Ordering::Less;
        let at = self.run.partition_point(|table| ends_before(&table.meta.largest));
        if let Some(cursor) = self.enter(at)? {
            cursor.seek(target)?;
        }
        self.forward_to_entry()
    }

    /// To the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.enter(0)? {
            cursor.seek_first()?;
        }
        self.forward_to_entry()
    }

    /// To the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        if let Some(cursor) = self.enter(self.run.len().wrapping_sub(1))? {
            cursor.seek_last()?;
        }
        self.backward_to_entry()
    }

    /// One forward.
    pub fn next(&mut self) -> Result<()> {
        self.current_mut().next()?;
        self.forward_to_entry()
    }

    /// One back.
    pub fn prev(&mut self) -> Result<()> {
        self.current_mut().prev()?;
        self.backward_to_entry()
    }

    /// The internal key.
    pub fn key(&self) -> &[u8] {
        self.current().key()
    }

    /// The value.
    pub fn value(&mut self) -> Result<&[u8]> {
        Ok(self.current_mut().value()?)
    }

    /// The entry, for `Build::keep`.
    pub fn entry(&self) -> EntryRef<'_> {
        self.current().entry()
    }

    fn current(&self) -> &dyn Cursor {
        self.table.as_deref().expect("the cursor stands on an entry")
    }

    fn current_mut(&mut self) -> &mut dyn Cursor {
        self.table.as_deref_mut().expect("the cursor stands on an entry")
    }

    fn enter(&mut self, at: usize) -> Result<Option<&mut Box<dyn Cursor>>> {
        let Some(table) = self.run.get(at) else {
            self.table = None;
            return Ok(None);
        };
        if self.table.is_none() || self.at != at {
            self.table = None; // an error below must leave the cursor standing nowhere
            self.table = Some(self.placement.open_table(&table.meta)?.cursor(self.how));
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
