//! Tables written in the order of their keys outside of flushes and compactions: by a repair, an ingest, a conversion. All are
//! durable before any version names one.
//!
//! However many there are, only some are open at once: each may hold a descriptor until it is durable.
use crate::Result;
use terrace_format::TableId;
use terrace_storage::placement::{Hint, Lifetime, ObjectId, Storage, TableMeta, TableSink};

/// Writes that may come while tables are prepared, before the sequence under which they are to appear is passed and they must
/// be prepared again.
pub const SEQUENCES_AHEAD: u64 = 1 << 24;

/// Tables of one build.
const TABLES_AT_ONCE: usize = 64;

/// The tables so far. Dropped unfinished, it removes them.
pub struct Bulk<'a> {
    to: &'a dyn Storage,
    /// Size, in bytes, at which a table ends.
    target_file_size: u64,
    draw_number: Box<dyn FnMut() -> TableId + 'a>,
    build: Option<Box<dyn TableSink>>,
    /// Tables of the build that have ended.
    ended: usize,
    open: bool,
    metas: Vec<TableMeta>,
}

impl<'a> Bulk<'a> {
    /// Writes tables of about `target_file_size` into `to`, each under a number that `draw_number` gives.
    pub fn new(to: &'a dyn Storage, target_file_size: u64, draw_number: impl FnMut() -> TableId + 'a) -> Bulk<'a> {
        let draw_number = Box::new(draw_number);
        Bulk { to, target_file_size, draw_number, build: None, ended: 0, open: false, metas: Vec::new() }
    }

    /// Stores an entry. Internal keys come in their order, each once, and no two of one user key.
    pub fn add(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        if self.open && self.build.as_ref().is_some_and(|build| build.table_bytes() >= self.target_file_size) {
            self.end_table()?;
        }
        if self.ended >= TABLES_AT_ONCE {
            self.settle()?;
        }
        let build = match &mut self.build {
            Some(build) => build,
            none => {
                let hint = Hint { level: 1, expected_bytes: self.target_file_size, lifetime: Lifetime::Ingest };
                none.insert(self.to.begin(hint)?)
            }
        };
        if !self.open {
            build.begin_table((self.draw_number)())?;
            self.open = true;
        }
        Ok(build.add(internal, value)?)
    }

    fn end_table(&mut self) -> Result<()> {
        self.open = false;
        self.ended += 1;
        self.build.as_mut().map_or(Ok(()), |build| Ok(build.end_table()?))
    }

    /// Ends the build and waits until its tables are durable.
    fn settle(&mut self) -> Result<()> {
        self.ended = 0;
        let Some(build) = self.build.take() else { return Ok(()) };
        let (metas, ticket) = build.finish()?;
        self.metas.extend(metas);
        self.to.commit()?;
        Ok(ticket.wait_durable()?)
    }

    /// The tables, all durable, in the order of their keys; none if there was no entry.
    pub fn finish(mut self) -> Result<Vec<TableMeta>> {
        if self.open {
            self.end_table()?;
        }
        self.settle()?;
        Ok(std::mem::take(&mut self.metas))
    }
}

impl Drop for Bulk<'_> {
    fn drop(&mut self) {
        for meta in &self.metas {
            // Best effort: the next opening removes them too. What it refers to is of this build alone.
            let referred = meta.refs.iter().map(|(object, _)| *object);
            referred.chain([ObjectId::Table(meta.id)]).for_each(|object| drop(self.to.remove(object)));
        }
    }
}
