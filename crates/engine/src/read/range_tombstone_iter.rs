//! Which keys deletes of ranges hide from a reader, source by source of a merge.
//!
//! Asked for one key, it finds out as far as the same holds for its neighbours: that stretch answers until the reader
//! leaves it, so a walk pays once for each end of a range that it meets.
use super::view::View;
use crate::{Result, mem::MemTable, version::Run};
use std::sync::Arc;
use terrace_format::{KeyOrder, SeqNo};
use terrace_storage::placement::Storage;

/// A source's deletes.
enum Source {
    Memory(Arc<MemTable>),
    Run(Run),
}

/// The deletes that a reader sees.
pub struct RangeTombstoneIter {
    storage: Arc<dyn Storage>,
    order: KeyOrder,
    /// Those of a merge, newest first.
    sources: Vec<Source>,
    seq: SeqNo,
    stretch: Option<Stretch>,
}

/// Keys from `from` on, before `to` (`None` is unbounded), of all of which the same holds.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// First key.
    pub from: Option<Vec<u8>>,
    /// The key behind the last.
    pub to: Option<Vec<u8>>,
    /// The newest delete; zero if there is none.
    pub newest: SeqNo,
    /// Number of the source that has it: every entry here in a source behind that one is older.
    pub source: usize,
}

impl Stretch {
    fn everything() -> Stretch {
        Stretch { from: None, to: None, newest: SeqNo::ZERO, source: usize::MAX }
    }

    fn holds(&self, order: &KeyOrder, user: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| order.user(from, user).is_le())
            && self.to.as_ref().is_none_or(|to| order.user(user, to).is_lt())
    }

    /// Narrows it to what also lies in `from .. to`.
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
    /// Those of `view` that a reader at `seq` sees.
    pub fn new(storage: Arc<dyn Storage>, order: KeyOrder, view: &View, seq: SeqNo) -> RangeTombstoneIter {
        let memtables = view.memtables().map(|mem| Source::Memory(mem.clone()));
        let sources = memtables.chain(view.version.runs().iter().map(|(_, run)| Source::Run(run.clone()))).collect();
        RangeTombstoneIter { storage, order, sources, seq, stretch: None }
    }

    /// What holds around `user`.
    pub fn around(&mut self, user: &[u8]) -> Result<&Stretch> {
        if !self.stretch.as_ref().is_some_and(|stretch| stretch.holds(&self.order, user)) {
            self.stretch = Some(self.find(user)?);
        }
        Ok(self.stretch.get_or_insert_with(Stretch::everything))
    }

    /// Whether it is known, without looking, that nothing hides `user`.
    #[inline]
    pub fn is_clear(&self, user: &[u8]) -> bool {
        self.stretch.as_ref().is_some_and(|known| known.newest == SeqNo::ZERO && known.holds(&self.order, user))
    }

    fn find(&self, user: &[u8]) -> Result<Stretch> {
        let mut found = Stretch::everything();
        for (number, source) in self.sources.iter().enumerate() {
            match source {
                Source::Memory(mem) if !mem.has_range_deletes() => {}
                Source::Memory(mem) => {
                    let own = mem.range_tombstones();
                    self.add(&mut found, number, own.stretch(&self.order, user, self.seq));
                }
                Source::Run(run) => {
                    let next = run.partition_point(|table| self.order.user(table.smallest(), user).is_le());
                    found.narrow(&self.order, None, run.get(next).map(|table| table.smallest()));
                    let Some(table) = next.checked_sub(1).map(|at| &run[at]) else { continue };
                    found.narrow(&self.order, Some(table.smallest()), None);
                    if let Some(own) = table.open(&*self.storage)?.range_tombstones()? {
                        self.add(&mut found, number, own.stretch(&self.order, user, self.seq));
                    }
                }
            }
        }
        Ok(found)
    }

    fn add(&self, found: &mut Stretch, source: usize, own: terrace_format::range_tombstones::Stretch<'_>) {
        found.narrow(&self.order, own.from, own.to);
        if own.newest > found.newest {
            (found.newest, found.source) = (own.newest, source);
        }
    }
}
