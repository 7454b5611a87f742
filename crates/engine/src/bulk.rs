//! SSTables written in key order by other jobs than flushes and compactions: repair, ingest,
//! conversion. All tables are durable before any version names one.
//!
//! They are written in batches: each table may hold a descriptor until it is durable.
use crate::Result;
use terrace_format::TableId;
use terrace_storage::placement::{Hint, Lifetime, ObjectId, Storage, TableMeta, TableSink};

/// Sequence numbers reserved for writes that arrive while tables are prepared. If writers pass
/// the sequence number at which the tables are to appear, the tables must be prepared again.
pub const SEQUENCES_AHEAD: u64 = 1 << 24;

/// Tables per batch.
const TABLES_AT_ONCE: usize = 64;

/// Writes tables. Dropped unfinished, it removes them.
pub struct BulkTableWriter<'a> {
    to: &'a dyn Storage,
    /// Size in bytes at which a table ends.
    target_file_size: u64,
    draw_number: Box<dyn FnMut() -> TableId + 'a>,
    sink: Option<Box<dyn TableSink>>,
    /// Finished tables of the batch.
    ended_tables: usize,
    table_open: bool,
    metas: Vec<TableMeta>,
}

impl<'a> BulkTableWriter<'a> {
    /// Writes tables of about `target_file_size` bytes to `to`, with numbers drawn by
    /// `draw_number`.
    pub fn new(
        to: &'a dyn Storage,
        target_file_size: u64,
        draw_number: impl FnMut() -> TableId + 'a,
    ) -> BulkTableWriter<'a> {
        let draw_number = Box::new(draw_number);
        BulkTableWriter {
            to,
            target_file_size,
            draw_number,
            sink: None,
            ended_tables: 0,
            table_open: false,
            metas: Vec::new(),
        }
    }

    /// Adds an entry. Internal keys ascend, each once, with one entry per user key.
    pub fn add(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        if self.table_open && self.sink.as_ref().is_some_and(|sink| sink.table_bytes() >= self.target_file_size) {
            self.end_table()?;
        }
        if self.ended_tables >= TABLES_AT_ONCE {
            self.finish_batch()?;
        }
        let sink = match &mut self.sink {
            Some(sink) => sink,
            none => {
                let hint = Hint { level: 1, expected_bytes: self.target_file_size, lifetime: Lifetime::Ingest };
                none.insert(self.to.begin(hint)?)
            }
        };
        if !self.table_open {
            sink.begin_table((self.draw_number)())?;
            self.table_open = true;
        }
        Ok(sink.add(internal, value)?)
    }

    fn end_table(&mut self) -> Result<()> {
        self.table_open = false;
        self.ended_tables += 1;
        self.sink.as_mut().map_or(Ok(()), |sink| Ok(sink.end_table()?))
    }

    /// Finishes the batch and waits until its tables are durable.
    fn finish_batch(&mut self) -> Result<()> {
        self.ended_tables = 0;
        let Some(sink) = self.sink.take() else { return Ok(()) };
        let (metas, handle) = sink.finish()?;
        self.metas.extend(metas);
        self.to.commit()?;
        Ok(handle.wait_durable()?)
    }

    /// Finishes the last table. Returns all tables, durable and in key order; none if there was no
    /// entry.
    pub fn finish(mut self) -> Result<Vec<TableMeta>> {
        if self.table_open {
            self.end_table()?;
        }
        self.finish_batch()?;
        Ok(std::mem::take(&mut self.metas))
    }
}

impl Drop for BulkTableWriter<'_> {
    fn drop(&mut self) {
        for meta in &self.metas {
            // Best effort: the next open removes them too. Only these tables reference the objects.
            let referred = meta.refs.iter().map(|(object, _)| *object);
            referred.chain([ObjectId::Table(meta.id)]).for_each(|object| drop(self.to.remove(object)));
        }
    }
}
