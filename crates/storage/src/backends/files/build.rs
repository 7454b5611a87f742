//! The output files of a flush or compaction job. Each table is one file. In a store with bundles,
//! however, all tables of a compaction share one file, the bundle. All files of a job become
//! durable together.
use super::{Store, bundle, segment};
use crate::{
    DurabilityHandle, Error, Purpose, Result,
    durability::{DurabilityTracker, Finished, SyncTracker},
    placement::{EntryRef, Fragment, Hint, Lifetime, ObjectId, TableMeta, TableSink, WholeBlock},
    tables::sst::{Bounds, ByteSink, Cut, Writer},
};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use terrace_format::{
    SegmentId, TableForm, TableId, Within,
    bundle::{ALIGNMENT, Member},
    names::FileName,
};
use terrace_vfs::{FileUse, WriteFile};

/// The buffer size of writes, as in LevelDB.
const GATHER_BYTES: usize = 64 << 10;

/// Starts to write the outputs of a job.
pub(super) fn begin(store: Arc<Store>, hint: Hint) -> Result<Box<dyn TableSink>> {
    store.writable("build tables")?;
    // A flush makes only one table, so a bundle would not reduce the number of syncs.
    let bundled = store.layout.tables == TableForm::Bundled && hint.lifetime == Lifetime::Compaction;
    let bundle = bundled.then(OpenBundle::default);
    let (metas, finished, parts, names) = Default::default();
    Ok(Box::new(FilesBuild { store, hint, bundle, open: None, segment: None, metas, finished, parts, names }))
}

/// Returns the purpose under which the I/O statistics count the bytes of a job.
pub(in crate::backends) fn purpose(hint: Hint) -> Purpose {
    match hint.lifetime {
        Lifetime::Flush => Purpose::Flush,
        Lifetime::Compaction => Purpose::Compaction,
        Lifetime::Ingest => Purpose::Ingest,
    }
}

/// Hands the finished files of a job to the durability tracker.
pub(in crate::backends) fn watch(store: &Store, purpose: Purpose, files: Vec<Finished>) -> Result<DurabilityHandle> {
    let Store { fs, tracker, setup, io_stats, .. } = store;
    let inline = setup.sync_flushes && purpose == Purpose::Flush && tracker.promises();
    if inline { SyncTracker.watch(&**fs, files, io_stats) } else { tracker.watch(&**fs, files, io_stats) }
}

struct FilesBuild {
    store: Arc<Store>,
    hint: Hint,
    /// The bundle that the job writes; `None` if each table is a file.
    bundle: Option<OpenBundle>,
    open: Option<(TableId, Writer<Output>)>,
    /// The open value-log segment of this job.
    segment: Option<(SegmentId, Output)>,
    metas: Vec<TableMeta>,
    /// Finished files that were not passed to the durability tracker yet.
    finished: Vec<Finished>,
    /// The durability handles of the files that were passed to the tracker.
    parts: Vec<DurabilityHandle>,
    /// The names of all files created so far. They are removed if the job is abandoned.
    names: Vec<String>,
}

/// The bundle (one file with several tables) that a job writes.
#[derive(Default)]
struct OpenBundle {
    /// The file of the bundle, to which the next table is appended. `None` before the first table,
    /// while a table is being written, and after a table that failed.
    output: Option<Output>,
    members: Vec<Member>,
}

impl FilesBuild {
    fn open(&mut self) -> Result<&mut Writer<Output>> {
        let open = self.open.as_mut().ok_or_else(|| Error::Unsupported("no table of this build is open".into()))?;
        Ok(&mut open.1)
    }

    fn create(&mut self, name: String) -> Result<Output> {
        let file = self
            .store
            .fs
            .create_for(&name, FileUse::Table { level: self.hint.level })
            .map_err(self.store.io("create", &name))?;
        let output = Output::to(file, &self.store, purpose(self.hint), self.hint.level, &name);
        self.names.push(name);
        Ok(output)
    }

    /// Returns the file to which table `id` is written: the job's bundle, or a new file.
    fn output(&mut self, id: TableId) -> Result<Output> {
        let Some(bundle) = &mut self.bundle else { return self.create(FileName::Table(id).to_string()) };
        match bundle.output.take() {
            Some(output) => Ok(output),
            None if bundle.members.is_empty() => self.create(bundle::name(id)),
            None => Err(Error::Unsupported("a table of this build has failed".into())),
        }
    }

    fn create_segment(&mut self, segment: SegmentId) -> Result<Output> {
        let name = self.store.name_of(ObjectId::Segment(segment));
        let file = self
            .store
            .fs
            .create_for(&name, FileUse::Table { level: self.hint.level })
            .map_err(self.store.io("create", &name))?;
        // The only values that a compaction writes are relocated ones, so their bytes are counted
        // as value-log GC. Flushes and ingestion write new values, whose bytes are counted together
        // with the tables.
        let purpose = match self.hint.lifetime {
            Lifetime::Compaction => Purpose::ValueLogGc,
            Lifetime::Flush | Lifetime::Ingest => purpose(self.hint),
        };
        let output = Output::to(file, &self.store, purpose, self.hint.level, &name);
        self.names.push(name);
        Ok(output)
    }

    /// Adds a finished file. Normally the job passes all its files to the durability tracker
    /// together at its end. It passes them earlier if all jobs together keep `waiting_max` files
    /// open, or this job a quarter of them.
    fn ended(&mut self, file: Finished) -> Result<()> {
        self.finished.push(file);
        let most = self.store.waiting_max;
        let held = self.store.held.fetch_add(1, Relaxed) + 1;
        if held >= most || self.finished.len() >= most.div_ceil(4) { self.pass_on() } else { Ok(()) }
    }

    /// Passes the finished files to the durability tracker. If the tracker returns an error, the
    /// durability handle of this job fails permanently.
    fn pass_on(&mut self) -> Result<()> {
        let held = self.finished.len();
        let watched = watch(&self.store, purpose(self.hint), std::mem::take(&mut self.finished));
        // The counter `held` includes the files of this job until the tracker has returned. The
        // tracker may first sync older files, and the files of this job stay open during that sync.
        self.store.held.fetch_sub(held, Relaxed);
        self.parts.push(
            watched.as_ref().map_or_else(|error| DurabilityHandle::broken(error.clone()), DurabilityHandle::clone),
        );
        watched.map(drop)
    }

    /// Ends the open segment; does nothing if there is none.
    fn end_segment(&mut self) -> Result<()> {
        match self.segment.take() {
            Some((_, output)) => self.ended(output.finish()?),
            None => Ok(()),
        }
    }

    /// Ends the bundle; does nothing if there is none.
    fn end_bundle(&mut self) -> Result<()> {
        let Some(OpenBundle { output: Some(mut output), members }) = self.bundle.take() else { return Ok(()) };
        let directory = terrace_format::bundle::encode(&members, output.written());
        output.append(&directory)?;
        self.ended(output.finish()?)?;
        self.store.bundles.add(&self.metas);
        Ok(())
    }
}

impl TableSink for FilesBuild {
    fn begin_table(&mut self, id: TableId) -> Result<()> {
        if let Some((open, _)) = &self.open {
            return Err(Error::Unsupported(format!("table {open} of this build is still open")));
        }
        let output = self.output(id)?;
        self.open = Some((id, Writer::new(output, &self.store.setup)));
        Ok(())
    }

    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()> {
        self.open()?.add(entry.key, entry.stored)
    }

    fn takes_block(&self, block: &WholeBlock<'_>) -> bool {
        let cut = self.open.as_ref().map_or(Cut::default(), |(_, writer)| writer.cut());
        cut.takes(&self.store.setup, block)
    }

    fn keep_block(&mut self, block: &WholeBlock<'_>) -> Result<()> {
        self.open()?.add_block(block)
    }

    fn rely_on(&mut self, segment: ObjectId) -> Result<()> {
        let unsettled = segment::rely_on(&self.store, segment, purpose(self.hint))?;
        unsettled.into_iter().try_for_each(|file| self.ended(file))
    }

    fn append_to_segment(&mut self, segment: SegmentId, bytes: &[u8]) -> Result<u64> {
        if self.segment.as_ref().is_none_or(|(open, _)| *open != segment) {
            self.end_segment()?;
            self.segment = Some((segment, self.create_segment(segment)?));
        }
        let (_, output) = self.segment.as_mut().expect("made above");
        let offset = output.written();
        output.append(bytes).map(|()| offset)
    }

    fn delete_range(&mut self, fragment: &Fragment) -> Result<()> {
        self.open()?.delete_range(fragment);
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |(_, writer)| writer.bytes())
    }

    fn end_table(&mut self) -> Result<()> {
        self.open()?;
        let Some((id, writer)) = self.open.take() else { return Ok(()) };
        let (mut output, Bounds { smallest, largest }) = writer.finish()?;
        let Some(bundle) = &mut self.bundle else {
            let finished = output.finish()?;
            self.metas.push(TableMeta::bounded(id, finished.bytes, None, smallest, largest));
            return self.ended(finished);
        };
        let offset = bundle.members.last().and_then(|last| last.end()).unwrap_or(0);
        let bytes = output.written() - offset;
        output.align()?;
        let first = bundle.members.first().map_or(id, |first| first.id);
        bundle.members.push(Member { id, offset, bytes });
        bundle.output = Some(output);
        let within = Some(Within { bundle: first, offset });
        self.metas.push(TableMeta::bounded(id, bytes, within, smallest, largest));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<TableMeta>, DurabilityHandle)> {
        if let Some((open, _)) = &self.open {
            return Err(Error::Unsupported(format!("table {open} of this build is still open")));
        }
        self.end_bundle()?;
        self.end_segment()?;
        if self.parts.is_empty() || !self.finished.is_empty() {
            self.pass_on()?;
        }
        self.names.clear();
        Ok((std::mem::take(&mut self.metas), DurabilityHandle::all(std::mem::take(&mut self.parts))))
    }
}

impl Drop for FilesBuild {
    fn drop(&mut self) {
        self.store.held.fetch_sub(self.finished.len(), Relaxed);
        for name in &self.names {
            drop(self.store.tracker.cancel_sync(&self.store.path(name)));
            // An error of the removal is ignored: recovery removes files that no manifest names.
            let _ = self.store.fs.remove(name);
        }
    }
}

/// A new output file and the buffer through which a job writes it.
pub(in crate::backends) struct Output {
    store: Arc<Store>,
    purpose: Purpose,
    level: usize,
    file: Box<dyn WriteFile>,
    name: String,
    gathered: Vec<u8>,
    /// Number of bytes passed to the operating system.
    bytes: u64,
}

impl Output {
    /// Creates the file `name`, for tables of `level`.
    pub fn create(store: &Arc<Store>, purpose: Purpose, level: usize, name: &str) -> Result<Output> {
        let file = store.fs.create(name).map_err(store.io("create", name))?;
        Ok(Output::to(file, store, purpose, level, name))
    }

    /// Wraps `file`, which is new and has the name `name`.
    fn to(file: Box<dyn WriteFile>, store: &Arc<Store>, purpose: Purpose, level: usize, name: &str) -> Output {
        // The buffer gets its maximum size at once. Buffers that grow with each file would fragment
        // the heap.
        let gathered = Vec::with_capacity(GATHER_BYTES + store.setup.block_size.min(GATHER_BYTES));
        Output { name: store.path(name), store: store.clone(), purpose, level, file, gathered, bytes: 0 }
    }

    /// Returns the number of bytes written so far, including buffered ones.
    fn written(&self) -> u64 {
        self.bytes + self.gathered.len() as u64
    }

    /// Pads the file to the alignment of tables in bundles.
    fn align(&mut self) -> Result<()> {
        let zeros = self.written().next_multiple_of(ALIGNMENT) - self.written();
        self.append(&[0; ALIGNMENT as usize][..zeros as usize])
    }

    /// Passes all buffered bytes to the operating system.
    pub fn finish(mut self) -> Result<Finished> {
        self.hand_over()?;
        Ok(Finished { name: self.name, file: self.file, bytes: self.bytes, purpose: self.purpose })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes).map_err(|e| Error::io("append to", &self.name, e))?;
        self.bytes += bytes.len() as u64;
        self.store.io_stats.wrote_tables(self.purpose, self.level, bytes.len() as u64);
        Ok(())
    }

    /// Passes the contents of the buffer to the operating system.
    fn hand_over(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let outcome = self.write(&gathered);
        gathered.clear();
        self.gathered = gathered;
        outcome
    }
}

impl ByteSink for Output {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let alone = bytes.len() >= GATHER_BYTES;
        if alone || self.gathered.len() + bytes.len() > self.gathered.capacity() {
            self.hand_over()?;
        }
        if alone {
            return self.write(bytes);
        }
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHER_BYTES { self.hand_over() } else { Ok(()) }
    }

    fn name(&self) -> &str {
        &self.name
    }
}
