//! Writes SSTables in key order for jobs other than flushes and compactions: repair, ingest and
//! conversion. All SSTables are durable before any version names one of them.
//!
//! The SSTables are written in batches. Each unfinished SSTable may hold a file descriptor until
//! it is durable, so the writer makes one batch durable before it begins the next.
use crate::Result;
use terrace_format::TableId;
use terrace_storage::placement::{Hint, Lifetime, ObjectId, Storage, TableMeta, TableSink};

/// How many sequence numbers an ingest leaves free for writes that arrive while the ingest
/// prepares its tables. If the writers use more sequence numbers than this, the ingest must
/// prepare its tables again, with larger sequence numbers.
pub const SEQUENCES_AHEAD: u64 = 1 << 24;

/// The maximum number of SSTables in a batch.
const TABLES_AT_ONCE: usize = 64;

/// Writes SSTables in key order. If the writer is dropped before it is finished, it removes its
/// SSTables.
pub struct BulkTableWriter<'a> {
    to: &'a dyn Storage,
    /// The size in bytes at which the writer ends an SSTable.
    target_file_size: u64,
    draw_number: Box<dyn FnMut() -> TableId + 'a>,
    sink: Option<Box<dyn TableSink>>,
    /// The number of finished SSTables in the current batch.
    ended_tables: usize,
    table_open: bool,
    metas: Vec<TableMeta>,
}

impl<'a> BulkTableWriter<'a> {
    /// Makes a writer of SSTables of about `target_file_size` bytes each in the storage `to`. The
    /// writer calls `draw_number` for a new table number before each SSTable.
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

    /// Adds an entry. Each internal key must be larger than the previous one, and each user key
    /// may have only one entry.
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

    /// Finishes the current batch of SSTables and waits until they are durable.
    fn finish_batch(&mut self) -> Result<()> {
        self.ended_tables = 0;
        let Some(sink) = self.sink.take() else { return Ok(()) };
        let (metas, handle) = sink.finish()?;
        self.metas.extend(metas);
        self.to.commit()?;
        Ok(handle.wait_durable()?)
    }

    /// Finishes the last SSTable. Returns all SSTables, durable and in key order. If there was no
    /// entry, the result is empty.
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
            // Removes the table and its value-log segments, which no other table references. An
            // error is ignored, because the next open of the store removes the remaining files.
            let referred = meta.refs.iter().map(|(object, _)| *object);
            referred.chain([ObjectId::Table(meta.id)]).for_each(|object| drop(self.to.remove(object)));
        }
    }
}
