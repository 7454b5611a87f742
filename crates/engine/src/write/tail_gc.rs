//! Tail garbage collection, as in WiscKey. It re-appends live values from the oldest segments of
//! the value log, and joins the writer queue to do this.
//!
//! The victims are the segments that tail GC empties. The SSTables show which values are in the
//! victims. A value is live if a lookup of its key finds the same value pointer. Tail GC makes
//! this lookup twice: before it reads the value, and again when it is the commit leader, because
//! then no other write can overwrite or delete the key. A relocated value gets a new sequence
//! number, but readers see no change. When all live values are relocated and flushed, newer
//! entries in SSTables shadow every pointer into a victim, and compactions may drop these pointers
//! (`compact/value_log_gc.rs`).
use super::{commit::commit, room::make_room, unlogged, visibility::wait_visible, writer::WritePath};
use crate::{
    Error, Result,
    rate_limit::throttle,
    read::{
        get::{self, PointLookup},
        view::View,
    },
    state::DbInner,
    version::{TableRef, Version},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{
    Batch, Kind, SeqNo,
    key::{self, Lookup},
};
use terrace_storage::placement::{Bytes, Cursor, ObjectId, StoredValue, TableReadOptions};

/// Number of bytes of keys and values at which tail GC writes the collected values as one write
/// group. Other writers wait while this group is written.
const RELOCATION_BATCH_BYTES: usize = 256 << 10;
const READ_HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: false };

/// A value that tail GC has read, and that was live at that time.
struct LiveValue {
    user: Vec<u8>,
    /// The value pointer, as the SSTable stores it.
    stored: Vec<u8>,
    value: Bytes,
    /// The victim (a segment that tail GC empties) that contains the value.
    victim: ObjectId,
}

/// One pass of tail GC over its victims.
struct TailGcPass {
    victims: BTreeSet<ObjectId>,
    /// Victims of which some part could not be read.
    unreadable: BTreeSet<ObjectId>,
    /// The live values that the next write group will relocate. One group may have values of
    /// several SSTables. A group becomes one frame of a segment, so a separate group for each small
    /// SSTable would write small frames.
    live_values: Vec<LiveValue>,
    /// The number of bytes of `live_values`.
    bytes: usize,
    /// The number of bytes that compactions and GC had written when this pass last checked the
    /// rate limit.
    bytes_at_last_check: u64,
}

impl TailGcPass {
    /// Collects live values to which `table` points, from `cursor` on, until there are enough for
    /// one write group. Returns false at the end of the table. The function writes nothing.
    fn gather_live_values(&mut self, shared: &DbInner, table: &TableRef, cursor: &mut Option<Cursor>) -> Result<bool> {
        let cursor = match cursor {
            Some(cursor) => cursor,
            none => {
                let cursor = none.insert(table.open(&*shared.storage)?.cursor(READ_HOW)?);
                cursor.seek_first()?;
                cursor
            }
        };
        while cursor.valid() && self.bytes < RELOCATION_BATCH_BYTES {
            let (entry, stored) = (key::apart(cursor.key()), cursor.value());
            let victim = match StoredValue::parse(stored) {
                Ok(StoredValue::At(at)) if entry.kind == Kind::Put => Some(ObjectId::from(&at)),
                _ => None,
            };
            if let Some(victim) = victim.filter(|victim| self.victims.contains(victim))
                && is_current(shared, &shared.view.load(), shared.visible(), entry.user, stored)?
            {
                match shared.storage.value(entry.user, entry.seq, Bytes::from(stored.to_vec())) {
                    Ok(value) => {
                        self.bytes += entry.user.len() + value.len();
                        self.live_values.push(LiveValue {
                            user: entry.user.to_vec(),
                            stored: stored.to_vec(),
                            value,
                            victim,
                        });
                    }
                    // The error is ignored: a reader of this value will get the same error.
                    Err(_) => drop(self.unreadable.insert(victim)),
                }
            }
            cursor.next()?;
        }
        Ok(cursor.valid())
    }
}

impl WritePath {
    /// Relocates the live values of all victims (the segments that tail GC empties). The function
    /// ends early if the store is closing or if there is too little disk space. Values that were
    /// relocated before an early end are stored twice until a later pass removes the old segment.
    pub fn relocate(&self, shared: &Arc<DbInner>) -> Result<()> {
        let (victims, version) = {
            let state = shared.state.lock();
            (state.gc.victims.clone(), state.versions.live().clone())
        };
        let mut pass = TailGcPass {
            victims,
            unreadable: BTreeSet::new(),
            live_values: Vec::new(),
            bytes: 0,
            bytes_at_last_check: 0,
        };
        if !self.relocate_all(shared, &version, &mut pass)? {
            abandon(shared, pass.unreadable);
            return Ok(());
        }
        let relocated_by = shared.visible();
        if shared.state.lock().versions.base() < relocated_by {
            self.seal(shared)?;
        }
        let mut state = shared.state.lock();
        (state.gc.relocating, state.gc.relocated_by) = (false, Some(relocated_by));
        state.gc.quarantine(pass.unreadable);
        shared.schedule(&mut state);
        Ok(())
    }

    /// Relocates the live values of all SSTables that point into a victim (a segment that tail GC
    /// empties). Returns false if there is too little disk space.
    fn relocate_all(&self, shared: &Arc<DbInner>, version: &Version, pass: &mut TailGcPass) -> Result<bool> {
        if !shared.has_room(RELOCATION_BATCH_BYTES as u64) {
            return Ok(false);
        }
        for (_, table) in version.tables() {
            if table.meta.segments().any(|(object, _)| pass.victims.contains(&object))
                && !self.relocate_table(shared, table, pass)?
            {
                return Ok(false);
            }
        }
        self.append_live_values(shared, pass)
    }

    /// Relocates those live values of one SSTable that are in victims (segments that tail GC
    /// empties). Returns false if there is too little disk space. If any part of the table cannot
    /// be read, quarantines all segments into which the table points.
    fn relocate_table(&self, shared: &Arc<DbInner>, table: &TableRef, pass: &mut TailGcPass) -> Result<bool> {
        let mut cursor = None;
        loop {
            match pass.gather_live_values(shared, table, &mut cursor) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(error) if error.is_io_or_damage() => {
                    pass.unreadable.extend(table.meta.segments().map(|(object, _)| object));
                    return Ok(true); // a read of the table will report it
                }
                Err(other) => return Err(other),
            }
            if !self.append_live_values(shared, pass)? {
                return Ok(false);
            }
        }
    }

    /// Re-appends the collected values in one write group, except those that were overwritten or
    /// deleted after they were collected. Returns false if there is too little disk space.
    ///
    /// # Errors
    /// [`Error::Closed`] if the store is closing.
    fn append_live_values(&self, shared: &Arc<DbInner>, pass: &mut TailGcPass) -> Result<bool> {
        if shared.state.lock().closing {
            return Err(Error::Closed);
        }
        let (live_values, bytes) = (std::mem::take(&mut pass.live_values), std::mem::take(&mut pass.bytes));
        if live_values.is_empty() {
            return Ok(true);
        }
        if !shared.has_room(bytes as u64) {
            return Ok(false);
        }
        let mut leader = self.lead_exclusively(shared)?;
        let writer = leader.state();
        make_room(shared, writer, bytes)?;
        if writer.unlogged.last.is_some() {
            unlogged::resume_logging(shared, writer, false)?;
        }
        wait_visible(shared, writer.last)?;
        let (view, last) = (shared.view.load_full(), writer.last);
        let mut batch = Batch::new();
        for LiveValue { user, stored, value, victim } in &live_values {
            match is_current(shared, &view, last, user, stored) {
                Ok(true) => batch.put(user, value),
                Ok(false) => {}
                Err(error) if error.is_io_or_damage() => {
                    pass.unreadable.insert(*victim); // a read of it will report the error
                }
                Err(other) => return Err(other),
            }
        }
        if batch.is_empty() {
            return Ok(true);
        }
        shared.stats.relocated(batch.byte_len() as u64);
        commit(shared, &mut leader, batch, false)?;
        drop(leader); // so that other writers proceed during the wait
        throttle(shared, &mut pass.bytes_at_last_check);
        Ok(true)
    }
}

/// Ends a pass of tail GC that has too little disk space. GC is suspended until space is freed.
fn abandon(shared: &Arc<DbInner>, unreadable: BTreeSet<ObjectId>) {
    let mut state = shared.state.lock();
    state.gc.quarantine(unreadable);
    state.gc.victims.clear();
    state.gc.relocating = false;
    shared.suspend_gc(&mut state);
    shared.schedule(&mut state);
}

/// Returns whether the newest entry of the key `user` at the sequence number `seq` is the value
/// pointer `stored`. Each put has its own place in a segment, so an equal pointer means the same
/// put.
fn is_current(shared: &DbInner, view: &View, seq: SeqNo, user: &[u8], stored: &[u8]) -> Result<bool> {
    let lookup = Lookup::new(user, seq);
    let (storage, order) = (&*shared.storage, &shared.order);
    let point_lookup = PointLookup {
        storage,
        order,
        lookup: &lookup,
        ranges: shared.has_range_tombstones,
        resolve: false,
        how: READ_HOW,
    };
    let found = get::get(&point_lookup, view.main(), |_| {}, |_, _| {})?;
    Ok(found.is_some_and(|value| value.bytes() == stored))
}
