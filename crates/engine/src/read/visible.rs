//! What a reader at one sequence sees of a merge: per user key the newest entry at or below it, if that is a put.
//!
//! Walking forward, the merge stands on the entry shown. Walking backward, versions of a key come oldest first, so the
//! merge stands before all of them and the entry shown is kept aside.
use super::merge::Merge;
use crate::Result;
use terrace_format::{KeyOrder, Kind, SeqNo, key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// The merge's own entry.
    Current,
    /// `saved_key` and `saved_value`; the merge stands before that key.
    Saved,
}

/// User keys and values, each key once, without deleted ones.
pub struct Visible {
    order: KeyOrder,
    merge: Merge,
    seq: SeqNo,
    shown: Shown,
    saved_key: Vec<u8>,
    saved_value: Vec<u8>,
}

impl Visible {
    /// What a reader at `seq` sees; stands nowhere yet.
    pub fn new(order: KeyOrder, merge: Merge, seq: SeqNo) -> Visible {
        Visible { order, merge, seq, shown: Shown::Nothing, saved_key: Vec::new(), saved_value: Vec::new() }
    }

    /// Whether it stands on a pair.
    pub fn valid(&self) -> bool {
        self.shown != Shown::Nothing
    }

    /// The user key.
    pub fn key(&self) -> &[u8] {
        match self.shown {
            Shown::Saved => &self.saved_key,
            _ => key::user_key(self.merge.key()),
        }
    }

    /// The value.
    pub fn value(&mut self) -> Result<&[u8]> {
        match self.shown {
            Shown::Saved => Ok(&self.saved_value),
            _ => self.merge.value(),
        }
    }

    /// To the first key at or after `user`.
    pub fn seek(&mut self, user: &[u8]) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.seek(&key::lookup(user, self.seq))?;
        self.find_forward(None)
    }

    /// To the first key.
    pub fn seek_first(&mut self) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.seek_first()?;
        self.find_forward(None)
    }

    /// To the last key.
    pub fn seek_last(&mut self) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.seek_last()?;
        self.find_backward()
    }

    /// To the last key before `user`.
    pub fn seek_before(&mut self, user: &[u8]) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.seek(&key::lookup(user, SeqNo::MAX))?;
        if self.merge.valid() {
            self.merge.prev()?
        } else {
            self.merge.seek_last()?
        }
        self.find_backward()
    }

    /// One forward.
    pub fn next(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.shown, Shown::Nothing) {
            Shown::Nothing => Ok(()),
            Shown::Current => {
                let done = key::user_key(self.merge.key()).to_vec();
                self.merge.next()?;
                self.find_forward(Some(done))
            }
            Shown::Saved => {
                let done = std::mem::take(&mut self.saved_key);
                if self.merge.valid() {
                    self.merge.next()?
                } else {
                    self.merge.seek_first()?
                }
                self.find_forward(Some(done))
            }
        }
    }

    /// One back.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.shown, Shown::Nothing) {
            Shown::Nothing => Ok(()),
            Shown::Current => {
                let done = key::user_key(self.merge.key()).to_vec();
                while self.merge.valid() && self.order.user(key::user_key(self.merge.key()), &done).is_ge() {
                    self.merge.prev()?;
                }
                self.find_backward()
            }
            Shown::Saved => self.find_backward(),
        }
    }

    /// From the merge's entry on, the first key to show; versions of `done` are passed over.
    fn find_forward(&mut self, mut done: Option<Vec<u8>>) -> Result<()> {
        while self.merge.valid() {
            let entry = self.merge.parsed()?;
            let passed = done.as_deref().is_some_and(|done| self.order.user(entry.user, done).is_le());
            if entry.seq <= self.seq && !passed {
                if entry.kind == Kind::Put {
                    self.shown = Shown::Current;
                    return Ok(());
                }
                done = Some(entry.user.to_vec());
            }
            self.merge.next()?;
        }
        Ok(())
    }

    /// From the merge's entry back, the first key to show. Ends with the merge before all versions of that key.
    fn find_backward(&mut self) -> Result<()> {
        let mut found = false;
        while self.merge.valid() {
            let entry = self.merge.parsed()?;
            if found && self.order.user(entry.user, &self.saved_key).is_lt() {
                break;
            }
            if entry.seq <= self.seq {
                found = entry.kind == Kind::Put;
                if found {
                    self.saved_key.clear();
                    self.saved_key.extend_from_slice(entry.user);
                    self.saved_value.clear();
                    let value = self.merge.value()?;
                    self.saved_value.extend_from_slice(value);
                }
            }
            self.merge.prev()?;
        }
        if found {
            self.shown = Shown::Saved;
        }
        Ok(())
    }
}
