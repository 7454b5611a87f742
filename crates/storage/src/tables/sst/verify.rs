//! Verifies a whole SSTable. It reads all bytes from storage and does not use the block cache.
use super::{Reader, stored_block::read_contents, tail::Tail, writer::count};
use crate::Result;
use std::sync::Arc;
use terrace_format::{
    Corrupt, TableProperties,
    block::{Block, BlockCursor},
    footer::Handle,
    key,
};

type Check = std::result::Result<(), Corrupt>;

impl Reader {
    /// See [`Table::verify`](crate::placement::Table::verify).
    pub fn verify(&self) -> Result<TableProperties> {
        verify(self)
    }
}

/// Reads the whole table again and returns the properties that it counted.
fn verify(table: &Reader) -> Result<TableProperties> {
    let (tail, _) = Tail::load(&*table.source, &table.order, table.policy.as_ref())?;
    let mut walk = Walk { table, tail: &tail, last: Vec::new(), counted: TableProperties::default() };
    let index = tail.index.partition_at(&*table.source, &table.order, 0)?;
    for at in 0..index.end() {
        let Some(handle) = index.handle(at) else { break };
        let contents = read_contents(&*table.source, handle, true)?;
        Block::of_internal_keys(contents)
            .and_then(|block| walk.block(handle, Arc::new(block)))
            .map_err(table.corrupt_at(handle.offset))?;
        walk.bound(index.key(at)).map_err(table.corrupt_at(tail.footer.index.offset))?;
    }
    if let Some(claimed) = tail.properties.as_ref().filter(|claimed| **claimed != walk.counted) {
        let detail = format!("the block says {claimed:?}, the entries give {:?}", walk.counted);
        return Err(table.corrupt_at(tail.footer.metaindex.offset)(Corrupt::new("table properties", 0, detail)));
    }
    Ok(walk.counted)
}

struct Walk<'a> {
    table: &'a Reader,
    tail: &'a Tail,
    /// The last key that the verification has checked, in a data block or in the index; empty at
    /// first. Every following key must be greater.
    last: Vec<u8>,
    counted: TableProperties,
}

impl Walk<'_> {
    fn block(&mut self, handle: Handle, block: Arc<Block>) -> Check {
        block.check_restarts()?;
        let mut data = BlockCursor::new(block);
        data.seek_first()?;
        while data.valid() {
            let parsed = key::parse(data.key())?;
            if !self.last.is_empty() && self.table.order.internal(&self.last, data.key()).is_ge() {
                let number = self.counted.entries;
                return Err(Corrupt::new("block", 0, format!("entry {number} of the table is out of order")));
            }
            let filter = &self.tail.filter;
            if !filter.table_may_match(&*self.table.source, &self.table.budget.filter_residency, parsed.user)
                || !filter.block_may_match(handle.offset, parsed.user)
            {
                let number = self.counted.entries;
                return Err(Corrupt::new("filter", 0, format!("no match for entry {number} of the table")));
            }
            count(&mut self.counted, parsed.seq, parsed.kind, data.key(), data.value());
            self.last.clear();
            self.last.extend_from_slice(data.key());
            data.next()?;
        }
        Ok(())
    }

    /// Checks the index key of the current block. It must be at or after the block's last key, and
    /// less than the first key of the next block.
    fn bound(&mut self, listed: &[u8]) -> Check {
        key::parse(listed)?;
        if !self.last.is_empty() && self.table.order.internal(&self.last, listed).is_gt() {
            return Err(Corrupt::new("index", 0, "an index key is less than the last key of its block"));
        }
        self.last.clear();
        self.last.extend_from_slice(listed);
        Ok(())
    }
}
