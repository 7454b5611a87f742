//! The output tables of a compaction. This module decides where one table ends and the next
//! begins.
use crate::{
    Error, Result,
    compact::plan::Plan,
    jobs::drop_filter::{DropFilter, Subcompaction},
    rate_limit::throttle,
    state::DbInner,
    version::Contents,
};
use std::{collections::VecDeque, io, sync::Arc};
use terrace_format::{TableId, key};
use terrace_storage::{
    DurabilityHandle, Purpose,
    placement::{EntryRef, Fragment, TableMeta, TableSink, WholeBlock},
};

/// The output tables of one subcompaction.
pub struct FinishedOutputs {
    /// The SSTables.
    pub metas: Vec<TableMeta>,
    /// The entry counts of the SSTables.
    pub contents: Vec<(TableId, Contents)>,
    /// A durability handle for all of the SSTables: it reports durable once every one of them is
    /// durable.
    pub handle: DurabilityHandle,
}

/// Builds the output tables of one subcompaction.
pub struct OutputBuilder<'a> {
    shared: &'a DbInner,
    plan: &'a Plan,
    sink: Box<dyn TableSink>,
    /// Range tombstones that no output table contains yet, in key order.
    ranges: VecDeque<Fragment>,
    open: bool,
    /// Entry counts of the open table so far.
    contents: Contents,
    /// Entry counts of the finished tables.
    finished: Vec<(TableId, Contents)>,
    end_due: bool,
    /// Number of grandparents (tables of the level below the output level) that the merge has
    /// passed so far: all their keys are below its current key. The field `overlapped` is the sum
    /// of the bytes of the grandparents passed since the start of the open table.
    grandparent: usize,
    overlapped: u64,
    seen_key: bool,
    /// Bytes that compactions and GC had written at the last check of the rate limit.
    bytes_at_last_check: u64,
    /// Bytes that all compactions had written, relocated values included, when this compaction last
    /// checked the free space; 0 before the first check. `None` if this compaction does not check
    /// the free space, because it relocates no value and is not optional.
    written: Option<u64>,
}

impl<'a> OutputBuilder<'a> {
    /// Makes a builder for the outputs of `plan`. `ranges` are the range tombstones of the inputs,
    /// in key order.
    pub fn new(
        shared: &'a DbInner,
        plan: &'a Plan,
        sink: Box<dyn TableSink>,
        ranges: Vec<Fragment>,
    ) -> OutputBuilder<'a> {
        let looks = plan.gc_only || shared.relocates_values(&shared.state.lock());
        OutputBuilder {
            shared,
            plan,
            sink,
            ranges: ranges.into(),
            open: false,
            contents: Contents::default(),
            finished: Vec::new(),
            end_due: false,
            grandparent: 0,
            overlapped: 0,
            seen_key: false,
            bytes_at_last_check: 0,
            written: looks.then_some(0),
        }
    }

    /// Moves to the key `internal`, which the merge has reached. The caller makes this call for
    /// every key, even if its entry is dropped. If the open table overlaps too many bytes of
    /// grandparents, the table ends before this key, because its later compaction would be
    /// expensive.
    pub fn advance(&mut self, internal: &[u8]) {
        let order = &self.shared.order;
        let aligned = self.shared.options.min_overlapping_ratio();
        while let Some(table) = self.plan.grandparents.get(self.grandparent)
            && order.internal(internal, &table.meta.largest).is_gt()
        {
            self.overlapped += if self.seen_key { table.meta.bytes } else { 0 };
            self.grandparent += 1;
            self.end_due |=
                self.seen_key && aligned && self.sink.table_bytes() >= self.shared.options.target_file_size / 2;
        }
        self.seen_key = true;
        if self.overlapped > self.shared.limits().grandparent_bytes() {
            self.overlapped = 0;
            self.end_due = true;
        }
    }

    /// Writes an entry. All versions of a user key are written to one table: a table begins only
    /// with the first entry of a user key.
    pub fn keep(&mut self, entry: EntryRef<'_>, begins_key: bool) -> Result<()> {
        if self.open && begins_key && self.is_full() {
            self.end_table(Some(key::user_key(entry.key)))?;
        }
        self.begin_table()?;
        self.contents.add(&key::apart(entry.key), begins_key);
        self.sink.keep(entry)?;
        throttle(self.shared, &mut self.bytes_at_last_check);
        self.check_space()
    }

    /// Checks whether there will soon be too little space for writers. If so, the compaction stops
    /// the relocation of values; a compaction that is optional as a whole returns an error.
    #[inline]
    fn check_space(&mut self) -> Result<()> {
        let Some(seen) = &mut self.written else { return Ok(()) };
        let io_stats = self.shared.storage.io_stats();
        let written = io_stats.bytes(Purpose::ValueLogGc) + io_stats.bytes(Purpose::Compaction);
        if written < *seen + self.shared.options.write_buffer_size / 4 {
            return Ok(());
        }
        *seen = written;
        if self.shared.has_room(0) {
            return Ok(());
        }
        if self.plan.gc_only {
            return Err(no_room(self.shared));
        }
        self.sink.stop_relocation();
        self.written = None;
        Ok(())
    }

    /// Copies a block of an input unchanged if the whole block is in the subcompaction,
    /// `drop_filter` drops none of its entries, and no output table has to end within the block.
    /// Returns the number of entries of the block, or 0 if it was not copied.
    pub fn keep_block(
        &mut self,
        block: &WholeBlock<'_>,
        drop_filter: &mut DropFilter<'_>,
        sub: &Subcompaction,
    ) -> Result<u64> {
        let order = &self.shared.order;
        let [first, last] = block.entries.bounds();
        let ends = self.plan.grandparents.get(self.grandparent).map(|table| &table.meta.largest);
        if !self.sink.takes_block(block)
            || ends.is_some_and(|end| order.internal(last, end).is_gt())
            || sub.to.as_ref().is_some_and(|to| order.user(key::user_key(last), to).is_ge())
        {
            return Ok(0);
        }
        let Some((begins_key, contents)) = drop_filter.keeps_all(block.entries) else { return Ok(0) };
        self.seen_key = true;
        if self.open && begins_key && self.is_full() {
            self.end_table(Some(key::user_key(first)))?;
        }
        self.begin_table()?;
        self.contents.extend(&contents);
        self.sink.keep_block(block)?;
        throttle(self.shared, &mut self.bytes_at_last_check);
        Ok(contents.entries)
    }

    fn begin_table(&mut self) -> Result<()> {
        if !self.open {
            self.end_due = false; // no table was open
            let drawn = || TableId(self.shared.state.lock().versions.new_number());
            let id = self.plan.number.unwrap_or_else(drawn);
            self.sink.begin_table(id)?;
            self.finished.push((id, Contents::default()));
            self.open = true;
        }
        Ok(())
    }

    /// Writes the range tombstones that begin before the user key `next`. A range tombstone that
    /// extends beyond `next` is cut at `next`, because tables do not overlap and each table
    /// contains all range tombstones for its keys.
    fn write_range_tombstones(&mut self, next: Option<&[u8]>) -> Result<()> {
        let order = &self.shared.order;
        while let Some(first) = self.ranges.front_mut() {
            if next.is_some_and(|next| order.user(&first.from, next).is_ge()) {
                break;
            }
            match next.filter(|next| order.user(&first.to, next).is_gt()) {
                Some(next) => {
                    let begin = std::mem::replace(&mut first.from, next.to_vec());
                    let (to, sequences) = (next.to_vec(), first.sequences.clone());
                    let fragment = Fragment { from: begin, to, sequences };
                    self.contents.add_range(&fragment);
                    self.sink.delete_range(&fragment)?;
                }
                None => {
                    self.contents.add_range(first);
                    self.sink.delete_range(first)?;
                    self.ranges.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Returns whether the open table has to end before the next user key. With
    /// `min_overlapping_ratio` a table may be up to half larger than its target size, so that it
    /// can end at the end of a grandparent (a table of the level below the output level). On
    /// average tables then have the target size.
    fn is_full(&self) -> bool {
        let target_file_size = self.shared.options.target_file_size;
        let most = if self.shared.options.min_overlapping_ratio() {
            target_file_size + target_file_size / 2
        } else {
            target_file_size
        };
        let single = self.plan.number.is_some(); // the one output of an intra-L0 compaction
        !single && (self.end_due || self.sink.table_bytes() >= most)
    }

    /// Ends the open table. `next` is the user key with which the next table begins.
    fn end_table(&mut self, next: Option<&[u8]>) -> Result<()> {
        self.write_range_tombstones(next)?;
        (self.open, self.end_due) = (false, false);
        if let Some((_, contents)) = self.finished.last_mut() {
            *contents = std::mem::take(&mut self.contents);
        }
        Ok(self.sink.end_table()?)
    }

    /// Ends the last table and returns the finished outputs.
    pub fn finish(mut self) -> Result<FinishedOutputs> {
        if !self.ranges.is_empty() {
            self.begin_table()?;
        }
        if self.open {
            self.end_table(None)?;
        }
        if self.finished.is_empty() {
            // There is no output table, because the filter dropped all entries.
            return Ok(FinishedOutputs { metas: Vec::new(), contents: Vec::new(), handle: DurabilityHandle::mature() });
        }
        let (mut metas, handle) = self.sink.finish()?;
        metas.iter_mut().for_each(|meta| meta.run = self.plan.output_run);
        Ok(FinishedOutputs { metas, contents: self.finished, handle })
    }
}

/// Returns the error with which an optional compaction ends if the disk has no space for it.
pub fn no_room(shared: &DbInner) -> Error {
    let source = Arc::new(io::Error::new(io::ErrorKind::StorageFull, "the remaining space is kept for writes"));
    Error::NoSpace { op: "collect garbage in", object: shared.storage.name(), source }
}
