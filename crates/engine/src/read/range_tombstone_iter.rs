//! Finds the range tombstones that shadow keys for a reader, over all sources of a merging
//! iterator.
//!
//! A lookup of one key returns a span: the neighbouring keys around it that the same newest range
//! tombstone shadows, or that no range tombstone shadows. The iterator caches the span. As long as
//! a scan stays within the span, it needs no further lookup. A scan therefore looks up range
//! tombstones only once for each start or end of a range tombstone.
use super::view::TreeView;
use crate::{Result, mem::MemTable, version::Run};
use std::sync::Arc;
use terrace_format::{KeyOrder, SeqNo};
use terrace_storage::placement::Storage;

/// A source of range tombstones: a memtable or a sorted run.
enum TombstoneSource {
    Memory(Arc<MemTable>),
    Run(Run),
}

/// Finds the range tombstones that a reader sees.
pub struct RangeTombstoneIter {
    storage: Arc<dyn Storage>,
    order: KeyOrder,
    /// The sources of the merging iterator, newest first.
    sources: Vec<TombstoneSource>,
    seq: SeqNo,
    span: Option<TombstoneSpan>,
}

/// A span of keys with the same newest range tombstone: from `from` inclusive to `to` exclusive.
/// `None` means unbounded.
#[derive(Clone, Debug)]
pub struct TombstoneSpan {
    /// First key.
    pub from: Option<Vec<u8>>,
    /// The first key after the span.
    pub to: Option<Vec<u8>>,
    /// The sequence number of the newest range tombstone over the span; zero if there is none.
    pub newest: SeqNo,
    /// The number of the source with the newest range tombstone over the span. Sources with higher
    /// numbers are older: their entries with keys in the span are older than the range tombstone.
    pub source: usize,
}

impl TombstoneSpan {
    fn unbounded() -> TombstoneSpan {
        TombstoneSpan { from: None, to: None, newest: SeqNo::ZERO, source: usize::MAX }
    }

    fn contains(&self, order: &KeyOrder, user: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| order.user(from, user).is_le())
            && self.to.as_ref().is_none_or(|to| order.user(user, to).is_lt())
    }

    /// Narrows the span to its keys from `from` (inclusive) to `to` (exclusive). `None` means no
    /// limit.
    fn narrow(&mut self, order: &KeyOrder, from: Option<&[u8]>, to: Option<&[u8]>) {
        if let Some(from) = from
            && self.from.as_ref().is_none_or(|own| order.user(own, from).is_lt())
        {
            self.from = Some(from.to_vec());
        }
        if let Some(to) = to
            && self.to.as_ref().is_none_or(|own| order.user(to, own).is_lt())
        {
            self.to = Some(to.to_vec());
        }
    }
}

impl RangeTombstoneIter {
    /// Makes the iterator for a reader of `view` at `seq`.
    pub fn new(storage: Arc<dyn Storage>, order: KeyOrder, view: TreeView<'_>, seq: SeqNo) -> RangeTombstoneIter {
        let memtables = view.memtables().map(|mem| TombstoneSource::Memory(mem.clone()));
        let sources =
            memtables.chain(view.version.runs().iter().map(|(_, run)| TombstoneSource::Run(run.clone()))).collect();
        RangeTombstoneIter { storage, order, sources, seq, span: None }
    }

    /// Returns the span around the key `user`. Does I/O if an SSTable must be opened.
    pub fn span_at(&mut self, user: &[u8]) -> Result<&TombstoneSpan> {
        if !self.span.as_ref().is_some_and(|span| span.contains(&self.order, user)) {
            self.span = Some(self.find(user)?);
        }
        Ok(self.span.get_or_insert_with(TombstoneSpan::unbounded))
    }

    /// Returns whether the cached span shows that no range tombstone shadows `user`.
    #[inline]
    pub fn is_clear(&self, user: &[u8]) -> bool {
        self.span.as_ref().is_some_and(|known| known.newest == SeqNo::ZERO && known.contains(&self.order, user))
    }

    fn find(&self, user: &[u8]) -> Result<TombstoneSpan> {
        let mut found = TombstoneSpan::unbounded();
        for (number, source) in self.sources.iter().enumerate() {
            match source {
                TombstoneSource::Memory(mem) if !mem.has_range_tombstones() => {}
                TombstoneSource::Memory(mem) => {
                    let own = mem.range_tombstones();
                    self.add(&mut found, number, own.stretch(&self.order, user, self.seq));
                }
                TombstoneSource::Run(run) => {
                    let next = run.partition_point(|table| self.order.user(table.smallest(), user).is_le());
                    found.narrow(&self.order, None, run.get(next).map(|table| table.smallest()));
                    let Some(table) = next.checked_sub(1).and_then(|at| run.get(at)) else { continue };
                    found.narrow(&self.order, Some(table.smallest()), None);
                    if let Some(own) = table.open(&*self.storage)?.range_tombstones()? {
                        self.add(&mut found, number, own.stretch(&self.order, user, self.seq));
                    }
                }
            }
        }
        Ok(found)
    }

    fn add(&self, found: &mut TombstoneSpan, source: usize, own: terrace_format::range_tombstones::Stretch<'_>) {
        found.narrow(&self.order, own.from, own.to);
        if own.newest > found.newest {
            (found.newest, found.source) = (own.newest, source);
        }
    }
}
