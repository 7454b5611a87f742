//! A cursor over a table: the entries of one block at hand, and whoever finds the next block.
use crate::{
    Result,
    tables::{EntryRef, Origin},
};
use terrace_format::{
    Kind, TableId,
    block::{BlockCursor, Bytes},
    key,
};

/// Finds the blocks of one table. A [`Cursor`] asks once for many entries; keys are whole internal keys of a known kind,
/// whatever is stored. After an error, or where there is no entry, `at` stands nowhere.
pub trait Blocks: Send {
    /// Turns `at` to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8], at: &mut BlockCursor) -> Result<()>;
    /// Turns `at` to the first entry.
    fn seek_first(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Turns `at` to the last entry.
    fn seek_last(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` one forward, into the next block if need be.
    fn next(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` one back, into the block before if need be.
    fn prev(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Turns `at` to the first entry behind the block that it is in.
    fn skip_block(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// The key that no entry of the block at hand lies behind.
    fn bound(&self) -> Option<&[u8]>;
    /// The block that `at` is in as it is stored, with its trailer, and all its entries at hand, none of which lies behind its bound. `None` if
    /// they are too many, or the block was not read with others, or not verified.
    fn stored(&self, at: &mut BlockCursor) -> Result<Option<Bytes>>;
}

/// A block as it is stored, for [`TableSink::keep_block`](crate::placement::TableSink::keep_block).
pub struct WholeBlock<'a> {
    /// Has all its entries at hand.
    pub entries: &'a BlockCursor,
    /// The same, with its trailer, maybe compressed; verified.
    pub sealed: Bytes,
}

/// Reads values that lie elsewhere than their keys.
pub trait Values: Send {
    /// The user's value of `entry`, which is a put; `stored` is what the table has in its place.
    fn fetch(&mut self, entry: EntryRef<'_>) -> Result<Bytes>;
}

/// Walks a table's entries in internal-key order. After an error it stands nowhere.
pub struct Cursor {
    table: TableId,
    /// Dropped before `blocks`, who keeps the memory of the block for others.
    at: BlockCursor,
    blocks: Box<dyn Blocks>,
    /// `None` where blocks hold the values themselves.
    values: Option<Box<dyn Values>>,
    fetched: Option<Bytes>,
}

impl Cursor {
    /// Over the entries of `table`, whose blocks `blocks` finds. Stands nowhere yet.
    pub fn new(table: TableId, blocks: Box<dyn Blocks>) -> Cursor {
        Cursor { table, blocks, at: BlockCursor::default(), values: None, fetched: None }
    }

    /// The same, over blocks that hold in the place of values what `values` finds them by.
    pub fn with_values(self, values: Box<dyn Values>) -> Cursor {
        Cursor { values: Some(values), ..self }
    }

    /// Has the value of the entry that it stands on at hand, wherever it lies. Must stand on an entry.
    pub fn fetch(&mut self) -> Result<()> {
        let Some(values) = &mut self.values else { return Ok(()) };
        self.fetched = None;
        let entry = EntryRef { key: self.at.key(), stored: self.at.value(), origin: Origin::Table(self.table) };
        if key::apart(entry.key).kind == Kind::Put {
            self.fetched = Some(values.fetch(entry)?);
        }
        Ok(())
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at.valid()
    }

    /// To the first entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.blocks.seek(key, &mut self.at)
    }

    /// To the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.blocks.seek_first(&mut self.at)
    }

    /// To the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.blocks.seek_last(&mut self.at)
    }

    /// One forward. Must stand on an entry.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a cursor moves both ways and can fail")]
    pub fn next(&mut self) -> Result<()> {
        if self.at.step_forward() { Ok(()) } else { self.blocks.next(&mut self.at) }
    }

    /// One back. Must stand on an entry.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.at.step_back() { Ok(()) } else { self.blocks.prev(&mut self.at) }
    }

    /// One forward if that needs no reading or decoding; else it stays, and the answer is false. Must stand on an entry.
    #[inline]
    pub fn step_forward(&mut self) -> bool {
        self.at.step_forward()
    }

    /// One back if that needs no reading or decoding; else it stays, and the answer is false. Must stand on an entry.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        self.at.step_back()
    }

    /// The block that it has just come to, standing on its first entry: the key that none of its entries lies behind.
    #[inline]
    pub fn comes_to_block(&self) -> Option<&[u8]> {
        if self.at.is_first() { self.blocks.bound().filter(|_| self.values.is_none()) } else { None }
    }

    /// That block as it is stored, if it can be had so. All its entries are at hand then.
    pub fn stored_block(&mut self) -> Result<Option<Bytes>> {
        if self.comes_to_block().is_some() { self.blocks.stored(&mut self.at) } else { Ok(None) }
    }

    /// The same with its entries.
    pub fn whole_block(&self, sealed: Bytes) -> WholeBlock<'_> {
        WholeBlock { entries: &self.at, sealed }
    }

    /// To the first entry behind the block that it is in.
    pub fn skip_block(&mut self) -> Result<()> {
        self.blocks.skip_block(&mut self.at)
    }

    /// See [`BlockCursor::next_apart`].
    #[inline]
    pub fn next_apart(&mut self, wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        self.at.next_apart(wanted)
    }

    /// What is decoded around the entry that it stands on.
    #[inline]
    pub fn decoded(&self) -> &BlockCursor {
        &self.at
    }

    /// The internal key, whole and of a known kind. Must stand on an entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.at.key()
    }

    /// The user's value, which must have been [fetched](Cursor::fetch) since the last step where
    /// [values lie elsewhere](crate::placement::Storage::values_elsewhere). Must stand on an entry.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.values {
            None => self.at.value(),
            Some(_) => {
                let fetched = self.fetched.as_deref();
                debug_assert!(
                    fetched.is_some() || key::apart(self.key()).kind == Kind::Delete,
                    "nobody fetched the value"
                );
                fetched.unwrap_or(&[])
            }
        }
    }

    /// Bytes of the internal key and of what the table has as its value. Must stand on an entry.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.at.entry_bytes()
    }

    /// The entry for [`TableSink::keep`](crate::placement::TableSink::keep). Must stand on an entry.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        EntryRef { key: self.at.key(), stored: self.at.value(), origin: Origin::Table(self.table) }
    }
}
