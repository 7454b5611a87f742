//! WiscKey's collector, as one of the writers: what is alive at the old end of the value log is put again, at its new end.
//!
//! Which values lie in the victims, their tables know; whether one is still alive, the tree is asked, twice: before the value is
//! read, and once more with the baton in hand, when nobody else can overwrite or delete it any more. What is put again has a
//! sequence of its own and is no news to anybody. When all is put, and flushed, whatever leads into the victims is hidden by
//! something newer in tables, and may be left out of them (`compact/collect.rs`).
use super::{
    WritePath, WriteRequest,
    commit::{commit, wait_visible},
    group::JoinResult,
    room::make_room,
    unlogged,
};
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
use terrace_storage::placement::{Bytes, Cursor, ObjectId, ReadHow, StoredValue};

/// Bytes of values that are put at once, as long as writers have to wait.
const RELOCATION_BATCH_BYTES: usize = 256 << 10;
const READ_HOW: ReadHow = ReadHow { verify: true, fill_cache: false };

/// A value that was alive when it was read.
struct LiveValue {
    user: Vec<u8>,
    /// What the tree has for it.
    stored: Vec<u8>,
    value: Bytes,
    /// Where that lies.
    victim: ObjectId,
}

/// One turn of the collector.
struct TailGcPass {
    victims: BTreeSet<ObjectId>,
    /// Those in which something could not be read.
    unreadable: BTreeSet<ObjectId>,
    /// To be put with the next group. It goes on from table to table, lest small tables made small frames.
    live_values: Vec<LiveValue>,
    /// Bytes of it.
    bytes: usize,
    /// What compactions and collectors had written at the last look at how fast they do.
    bytes_at_last_check: u64,
}

impl TailGcPass {
    /// Goes on in `table`, where `cursor` has come to, until there is enough to be put. False at its end. Only reads.
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
                match shared.storage.value(entry.user, entry.seq, Bytes::from(stored.to_vec()), READ_HOW) {
                    Ok(value) => {
                        self.bytes += entry.user.len() + value.len();
                        self.live_values.push(LiveValue {
                            user: entry.user.to_vec(),
                            stored: stored.to_vec(),
                            value,
                            victim,
                        });
                    }
                    Err(_) => drop(self.unreadable.insert(victim)), // whoever reads it is told why
                }
            }
            cursor.next()?;
        }
        Ok(cursor.valid())
    }
}

impl WritePath {
    /// Puts again what is alive in the victims of the tail collector. Ends early if the store is being closed, or has no space for it: what
    /// was put by then is there twice for a while.
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
        let put_by = shared.visible();
        if shared.state.lock().versions.base() < put_by {
            self.seal(shared)?;
        }
        let mut state = shared.state.lock();
        (state.gc.putting, state.gc.put_by) = (false, Some(put_by));
        state.gc.spare(pass.unreadable);
        shared.schedule(&mut state);
        Ok(())
    }

    /// The part of all tables. False if there is no space for it.
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

    /// The part of one table. False if there is no space for it. Where something of the table cannot be read, what it points into stays.
    fn relocate_table(&self, shared: &Arc<DbInner>, table: &TableRef, pass: &mut TailGcPass) -> Result<bool> {
        let mut cursor = None;
        loop {
            match pass.gather_live_values(shared, table, &mut cursor) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(error) if error.is_input_or_output() => {
                    pass.unreadable.extend(table.meta.segments().map(|(object, _)| object));
                    return Ok(true); // whoever reads it is told why
                }
                Err(other) => return Err(other),
            }
            if !self.append_live_values(shared, pass)? {
                return Ok(false);
            }
        }
    }

    /// Puts those that are alive still. False if there is no space for that. [`Error::Closed`] if the store is being closed.
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
        let mut leader = self.lead_exclusively()?;
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
                Err(error) if error.is_input_or_output() => {
                    pass.unreadable.insert(*victim); // as above
                }
                Err(other) => return Err(other),
            }
        }
        if batch.is_empty() {
            return Ok(true);
        }
        shared.stats.put_again(batch.byte_len() as u64);
        commit(shared, &mut leader, batch, false)?;
        drop(leader); // others write while this waits
        throttle(shared, &mut pass.bytes_at_last_check);
        Ok(true)
    }
}

/// Until space is given back nothing is collected.
fn abandon(shared: &Arc<DbInner>, unreadable: BTreeSet<ObjectId>) {
    let mut state = shared.state.lock();
    state.gc.spare(unreadable);
    state.gc.victims.clear();
    state.gc.putting = false;
    shared.suspend_gc(&mut state);
    shared.schedule(&mut state);
}

/// Whether `stored` is what the tree has for `user` at `seq`. An entry of a segment is there once, so it is the same put.
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
    let found = get::get(&point_lookup, view, |_, _| {})?;
    Ok(found.is_some_and(|value| value.bytes() == stored))
}
