//! WiscKey's collector, as one of the writers: what is alive at the old end of the value log is put again, at its new end.
//!
//! Which values lie in the victims, their tables know; whether one is still alive, the tree is asked, twice: before the value is
//! read, and once more with the baton in hand, when nobody else can overwrite or delete it any more. What is put again has a
//! sequence of its own and is no news to anybody. When all is put, and flushed, whatever leads into the victims is hidden by
//! something newer in tables, and may be left out of them (`compact/collect.rs`).
use super::{
    WriteRequest, Writes,
    commit::{commit, wait_visible},
    group::JoinResult,
    room::make_room,
    unlogged,
};
use crate::{
    Error, Result,
    rate_limit::hold_back,
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
const BYTES_AT_ONCE: usize = 256 << 10;
const HOW: ReadHow = ReadHow { verify: true, fill_cache: false };

/// A value that was alive when it was read.
struct Living {
    user: Vec<u8>,
    /// What the tree has for it.
    stored: Vec<u8>,
    value: Bytes,
    /// Where that lies.
    victim: ObjectId,
}

/// One turn of the collector.
struct Turned {
    victims: BTreeSet<ObjectId>,
    /// Those in which something could not be read.
    unreadable: BTreeSet<ObjectId>,
    /// To be put with the next group. It goes on from table to table, lest small tables made small frames.
    living: Vec<Living>,
    /// Bytes of it.
    bytes: usize,
    /// What compactions and collectors had written at the last look at how fast they do.
    looked_at: u64,
}

impl Turned {
    /// Goes on in `table`, where `cursor` has come to, until there is enough to be put. False at its end. Only reads.
    fn gather(&mut self, shared: &DbInner, table: &TableRef, cursor: &mut Option<Cursor>) -> Result<bool> {
        let cursor = match cursor {
            Some(cursor) => cursor,
            none => {
                let cursor = none.insert(table.open(&*shared.storage)?.cursor(HOW)?);
                cursor.seek_first()?;
                cursor
            }
        };
        while cursor.valid() && self.bytes < BYTES_AT_ONCE {
            let (entry, stored) = (key::apart(cursor.key()), cursor.value());
            let victim = match StoredValue::parse(stored) {
                Ok(StoredValue::At(at)) if entry.kind == Kind::Put => Some(ObjectId::from(&at)),
                _ => None,
            };
            if let Some(victim) = victim.filter(|victim| self.victims.contains(victim))
                && is_current(shared, &shared.view.load(), shared.visible(), entry.user, stored)?
            {
                match shared.storage.value(entry.user, entry.seq, Bytes::from(stored.to_vec()), HOW) {
                    Ok(value) => {
                        self.bytes += entry.user.len() + value.len();
                        self.living.push(Living { user: entry.user.to_vec(), stored: stored.to_vec(), value, victim });
                    }
                    Err(_) => drop(self.unreadable.insert(victim)), // whoever reads it is told why
                }
            }
            cursor.next()?;
        }
        Ok(cursor.valid())
    }
}

impl Writes {
    /// Puts again what is alive in the victims of the tail collector. Ends early if the store is being closed, or has no space for it: what
    /// was put by then is there twice for a while.
    pub fn put_again(&self, shared: &Arc<DbInner>) -> Result<()> {
        let (victims, version) = {
            let control = shared.control.lock();
            (control.collecting.victims.clone(), control.versions.live().clone())
        };
        let mut turned = Turned { victims, unreadable: BTreeSet::new(), living: Vec::new(), bytes: 0, looked_at: 0 };
        if !self.put_all_again(shared, &version, &mut turned)? {
            starved(shared, turned.unreadable);
            return Ok(());
        }
        let put_by = shared.visible();
        if shared.control.lock().versions.base() < put_by {
            self.seal(shared)?;
        }
        let mut control = shared.control.lock();
        (control.collecting.putting, control.collecting.put_by) = (false, Some(put_by));
        control.collecting.spare(turned.unreadable);
        shared.schedule(&mut control);
        Ok(())
    }

    /// The part of all tables. False if there is no space for it.
    fn put_all_again(&self, shared: &Arc<DbInner>, version: &Version, turned: &mut Turned) -> Result<bool> {
        if !shared.has_room(BYTES_AT_ONCE as u64) {
            return Ok(false);
        }
        for (_, table) in version.tables() {
            if table.meta.segments().any(|(object, _)| turned.victims.contains(&object))
                && !self.put_again_of(shared, table, turned)?
            {
                return Ok(false);
            }
        }
        self.put_living(shared, turned)
    }

    /// The part of one table. False if there is no space for it. Where something of the table cannot be read, what it points into stays.
    fn put_again_of(&self, shared: &Arc<DbInner>, table: &TableRef, turned: &mut Turned) -> Result<bool> {
        let mut cursor = None;
        loop {
            match turned.gather(shared, table, &mut cursor) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(error) if error.is_input_or_output() => {
                    turned.unreadable.extend(table.meta.segments().map(|(object, _)| object));
                    return Ok(true); // whoever reads it is told why
                }
                Err(other) => return Err(other),
            }
            if !self.put_living(shared, turned)? {
                return Ok(false);
            }
        }
    }

    /// Puts those that are alive still. False if there is no space for that. [`Error::Closed`] if the store is being closed.
    fn put_living(&self, shared: &Arc<DbInner>, turned: &mut Turned) -> Result<bool> {
        if shared.control.lock().closing {
            return Err(Error::Closed);
        }
        let (living, bytes) = (std::mem::take(&mut turned.living), std::mem::take(&mut turned.bytes));
        if living.is_empty() {
            return Ok(true);
        }
        if !shared.has_room(bytes as u64) {
            return Ok(false);
        }
        let JoinResult::LeaderGuard(mut lead, _) = self.queue.join(WriteRequest::Alone, false) else {
            return Err(Error::Bug("somebody who wanted the baton alone was taken along".into()));
        };
        let core = lead.baton();
        make_room(shared, core, bytes)?;
        if core.unlogged.last.is_some() {
            unlogged::go_on_with_a_log(shared, core, false)?;
        }
        wait_visible(shared, core.last)?;
        let (view, last) = (shared.view.load_full(), core.last);
        let mut batch = Batch::new();
        for Living { user, stored, value, victim } in &living {
            match is_current(shared, &view, last, user, stored) {
                Ok(true) => batch.put(user, value),
                Ok(false) => {}
                Err(error) if error.is_input_or_output() => {
                    turned.unreadable.insert(*victim); // as above
                }
                Err(other) => return Err(other),
            }
        }
        if batch.is_empty() {
            return Ok(true);
        }
        shared.stats.put_again(batch.byte_len() as u64);
        commit(shared, &mut lead, batch, false)?;
        drop(lead); // others write while this waits
        hold_back(shared, &mut turned.looked_at);
        Ok(true)
    }
}

/// Until space is given back nothing is collected.
fn starved(shared: &Arc<DbInner>, unreadable: BTreeSet<ObjectId>) {
    let mut control = shared.control.lock();
    control.collecting.spare(unreadable);
    control.collecting.victims.clear();
    control.collecting.putting = false;
    shared.starve(&mut control);
    shared.schedule(&mut control);
}

/// Whether `stored` is what the tree has for `user` at `seq`. An entry of a segment is there once, so it is the same put.
fn is_current(shared: &DbInner, view: &View, seq: SeqNo, user: &[u8], stored: &[u8]) -> Result<bool> {
    let lookup = Lookup::new(user, seq);
    let (storage, order) = (&*shared.storage, &shared.order);
    let question =
        PointLookup { storage, order, lookup: &lookup, ranges: shared.deletes_ranges, resolve: false, how: HOW };
    let found = get::get(&question, view, |_, _| {})?;
    Ok(found.is_some_and(|value| value.bytes() == stored))
}
