//! The tables that a merge makes: where one ends and the next begins.
use crate::{
    Error, Result,
    compact::plan::Plan,
    jobs::sieve::{Part, Sieve},
    rate_limit::hold_back,
    state::DbInner,
    version::Contents,
};
use std::{collections::VecDeque, io, sync::Arc};
use terrace_format::{TableId, key};
use terrace_storage::{
    DurabilityHandle, Purpose,
    placement::{EntryRef, Fragment, TableMeta, TableSink, WholeBlock},
};

/// What one part of a merge has yielded.
pub struct Made {
    /// The tables.
    pub metas: Vec<TableMeta>,
    /// What they hold.
    pub contents: Vec<(TableId, Contents)>,
    /// Since when they will be durable.
    pub ticket: DurabilityHandle,
}

/// What one part of a merge yields.
pub struct Output<'a> {
    shared: &'a DbInner,
    plan: &'a Plan,
    build: Box<dyn TableSink>,
    /// Deletes of ranges that are not stored yet, in order.
    ranges: VecDeque<Fragment>,
    open: bool,
    /// What the open table holds so far, …
    contents: Contents,
    /// … and those before.
    made: Vec<(TableId, Contents)>,
    end_due: bool,
    /// Grandparents passed so far, and their bytes since the open table began.
    grandparent: usize,
    overlapped: u64,
    seen_key: bool,
    /// What compactions had written at the last look at how fast they do.
    looked_at: u64,
    /// What all compactions had written, moved values as well, at the last look at what that leaves to writers, before the first 0; `None` where
    /// nothing is moved, and others depend on what is written.
    written: Option<u64>,
}

impl<'a> Output<'a> {
    /// To hold what `plan` merges, and the deletes of `ranges`, in their order.
    pub fn new(shared: &'a DbInner, plan: &'a Plan, build: Box<dyn TableSink>, ranges: Vec<Fragment>) -> Output<'a> {
        let looks = plan.only_collects || shared.moves_values(&shared.control.lock());
        Output {
            shared,
            plan,
            build,
            ranges: ranges.into(),
            open: false,
            contents: Contents::default(),
            made: Vec::new(),
            end_due: false,
            grandparent: 0,
            overlapped: 0,
            seen_key: false,
            looked_at: 0,
            written: looks.then_some(0),
        }
    }

    /// The merge passes `internal`, kept or not. An output that met too many grandparents would be dear to compact
    /// further; it ends before this key.
    pub fn pass(&mut self, internal: &[u8]) {
        let order = &self.shared.order;
        let aligned = self.shared.options.min_overlapping_ratio();
        while let Some(table) = self.plan.grandparents.get(self.grandparent)
            && order.internal(internal, &table.meta.largest).is_gt()
        {
            self.overlapped += if self.seen_key { table.meta.bytes } else { 0 };
            self.grandparent += 1;
            self.end_due |=
                self.seen_key && aligned && self.build.table_bytes() >= self.shared.options.target_file_size / 2;
        }
        self.seen_key = true;
        if self.overlapped > self.shared.limits().grandparent_bytes() {
            self.overlapped = 0;
            self.end_due = true;
        }
    }

    /// Stores an entry. Versions of one user key never part: only one that begins a user key may begin a table.
    pub fn keep(&mut self, entry: EntryRef<'_>, begins_key: bool) -> Result<()> {
        if self.open && begins_key && self.is_full() {
            self.end_table(Some(key::user_key(entry.key)))?;
        }
        self.begin_table()?;
        self.contents.add(&key::apart(entry.key), begins_key);
        self.build.keep(entry)?;
        hold_back(self.shared, &mut self.looked_at);
        self.leave_room()
    }

    /// Leaves values where they are from when on there is soon no space for writers. An error if nothing depends on this.
    #[inline]
    fn leave_room(&mut self) -> Result<()> {
        let Some(seen) = &mut self.written else { return Ok(()) };
        let traffic = self.shared.storage.traffic();
        let written = traffic.bytes(Purpose::ValueLogGc) + traffic.bytes(Purpose::Compaction);
        if written < *seen + self.shared.options.write_buffer_size / 4 {
            return Ok(());
        }
        *seen = written;
        if self.shared.has_room(0) {
            return Ok(());
        }
        if self.plan.only_collects {
            return Err(no_room(self.shared));
        }
        self.build.move_no_more();
        self.written = None;
        Ok(())
    }

    /// Stores a block as it is if all of it belongs to the part and is kept by `sieve`, and no output needs to end within it: how many entries it
    /// has. Else nothing has happened, and there are none.
    pub fn keep_block(&mut self, block: &WholeBlock<'_>, sieve: &mut Sieve<'_>, part: &Part) -> Result<u64> {
        let order = &self.shared.order;
        let [first, last] = block.entries.bounds();
        let ends = self.plan.grandparents.get(self.grandparent).map(|table| &table.meta.largest);
        if !self.build.takes_block(block)
            || ends.is_some_and(|end| order.internal(last, end).is_gt())
            || part.to.as_ref().is_some_and(|to| order.user(key::user_key(last), to).is_ge())
        {
            return Ok(0);
        }
        let Some((begins_key, contents)) = sieve.keeps_all(block.entries) else { return Ok(0) };
        self.seen_key = true;
        if self.open && begins_key && self.is_full() {
            self.end_table(Some(key::user_key(first)))?;
        }
        self.begin_table()?;
        self.contents.extend(&contents);
        self.build.keep_block(block)?;
        hold_back(self.shared, &mut self.looked_at);
        Ok(contents.entries)
    }

    fn begin_table(&mut self) -> Result<()> {
        if !self.open {
            self.end_due = false; // there was nothing to end
            let drawn = || TableId(self.shared.control.lock().versions.new_number());
            let id = self.plan.number.unwrap_or_else(drawn);
            self.build.begin_table(id)?;
            self.made.push((id, Contents::default()));
            self.open = true;
        }
        Ok(())
    }

    /// Stores the deletes of ranges before `next`. A range that goes on there is cut: tables do not overlap, and each has
    /// all that hides its keys.
    fn delete_ranges(&mut self, next: Option<&[u8]>) -> Result<()> {
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
                    self.build.delete_range(&fragment)?;
                }
                None => {
                    self.contents.add_range(first);
                    self.build.delete_range(first)?;
                    self.ranges.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Whether the open table is to end before the next user key. Where outputs look for the ends of tables below, one may
    /// grow beyond its size to find one, so that they have that size on average.
    fn is_full(&self) -> bool {
        let target_file_size = self.shared.options.target_file_size;
        let most = if self.shared.options.min_overlapping_ratio() {
            target_file_size + target_file_size / 2
        } else {
            target_file_size
        };
        let single = self.plan.number.is_some(); // a number was kept for one output
        !single && (self.end_due || self.build.table_bytes() >= most)
    }

    /// The next table begins at user key `next`, if there is one.
    fn end_table(&mut self, next: Option<&[u8]>) -> Result<()> {
        self.delete_ranges(next)?;
        (self.open, self.end_due) = (false, false);
        if let Some((_, contents)) = self.made.last_mut() {
            *contents = std::mem::take(&mut self.contents);
        }
        Ok(self.build.end_table()?)
    }

    /// The tables, what they hold, and since when they will be durable.
    pub fn finish(mut self) -> Result<Made> {
        if !self.ranges.is_empty() {
            self.begin_table()?;
        }
        if self.open {
            self.end_table(None)?;
        }
        if self.made.is_empty() {
            return Ok(Made { metas: Vec::new(), contents: Vec::new(), ticket: DurabilityHandle::mature() }); // everything was dropped
        }
        let (metas, ticket) = self.build.finish()?;
        Ok(Made { metas, contents: self.made, ticket })
    }
}

/// Why something is not done that nothing depends on.
pub fn no_room(shared: &DbInner) -> Error {
    let source = Arc::new(io::Error::new(io::ErrorKind::StorageFull, "what is left is for writers"));
    Error::NoSpace { op: "collect garbage in", object: shared.storage.name(), source }
}
