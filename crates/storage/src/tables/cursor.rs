//! Cursors over tables: the decoded entries of one block, and the source of the next block.
use crate::{
    Result,
    tables::{EntryRef, Origin},
};
use terrace_format::{
    Kind, TableId,
    block::{BlockCursor, Bytes},
    key,
};

/// Finds the blocks of one table. A [`Cursor`] calls it once for many entries. Keys are whole
/// internal keys of a known kind, whatever is stored. After an error, and where there is no entry,
/// `at` is invalid.
pub trait Blocks: Send {
    /// Moves `at` to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8], at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` to the first entry.
    fn seek_first(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` to the last entry.
    fn seek_last(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` forward by one entry, into the next block if need be.
    fn next(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` back by one entry, into the previous block if need be.
    fn prev(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` to the first entry after its block.
    fn skip_block(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// The upper bound of the keys of the current block.
    fn bound(&self) -> Option<&[u8]>;
    /// The block of `at` as it is stored, with its trailer, and with all its entries decoded, none
    /// after its bound. `None` if they are too many, or if the block was not read with others, or
    /// not verified.
    fn stored(&self, at: &mut BlockCursor) -> Result<Option<Bytes>>;
}

/// A block as it is stored, for
/// [`TableSink::keep_block`](crate::placement::TableSink::keep_block).
pub struct WholeBlock<'a> {
    /// All entries of the block, decoded.
    pub entries: &'a BlockCursor,
    /// The block with its trailer, possibly compressed; verified.
    pub sealed: Bytes,
}

/// Reads values that are stored separately from their keys.
pub trait Values: Send {
    /// The user's value of `entry`, which is a put with `stored` in the table.
    fn fetch(&mut self, entry: EntryRef<'_>) -> Result<Bytes>;
}

/// Iterates over the entries of a table in internal-key order. Invalid after an error.
pub struct Cursor {
    table: TableId,
    /// Dropped before `blocks`, which reuses the memory of the block.
    at: BlockCursor,
    blocks: Box<dyn Blocks>,
    /// `None` where blocks hold the values themselves.
    values: Option<Box<dyn Values>>,
    fetched: Option<Bytes>,
}

impl Cursor {
    /// A cursor over the entries of `table`, whose blocks `blocks` finds. Not valid until it is
    /// positioned.
    pub fn new(table: TableId, blocks: Box<dyn Blocks>) -> Cursor {
        Cursor { table, blocks, at: BlockCursor::default(), values: None, fetched: None }
    }

    /// The same over blocks with references instead of values, which `values` resolves.
    pub fn with_values(self, values: Box<dyn Values>) -> Cursor {
        Cursor { values: Some(values), ..self }
    }

    /// Reads the value of the current entry if it is stored separately. The cursor must be valid.
    pub fn fetch(&mut self) -> Result<()> {
        let Some(values) = &mut self.values else { return Ok(()) };
        self.fetched = None;
        let entry = EntryRef { key: self.at.key(), stored: self.at.value(), origin: Origin::Table(self.table) };
        if key::apart(entry.key).kind == Kind::Put {
            self.fetched = Some(values.fetch(entry)?);
        }
        Ok(())
    }

    /// Whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at.valid()
    }

    /// Moves to the first entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.blocks.seek(key, &mut self.at)
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.blocks.seek_first(&mut self.at)
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.blocks.seek_last(&mut self.at)
    }

    /// Moves forward by one entry. The cursor must be valid.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a cursor moves both ways and can fail")]
    pub fn next(&mut self) -> Result<()> {
        if self.at.step_forward() { Ok(()) } else { self.blocks.next(&mut self.at) }
    }

    /// Moves back by one entry. The cursor must be valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.at.step_back() { Ok(()) } else { self.blocks.prev(&mut self.at) }
    }

    /// Moves forward by one entry if that needs no read and no decoding; else stays and returns
    /// false. The cursor must be valid.
    #[inline]
    pub fn step_forward(&mut self) -> bool {
        self.at.step_forward()
    }

    /// Moves back by one entry if that needs no read and no decoding; else stays and returns
    /// false. The cursor must be valid.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        self.at.step_back()
    }

    /// At the first entry of a block: the upper bound of the keys of the block.
    #[inline]
    pub fn comes_to_block(&self) -> Option<&[u8]> {
        if self.at.is_first() { self.blocks.bound().filter(|_| self.values.is_none()) } else { None }
    }

    /// That block as it is stored, if it is available. All its entries are decoded then.
    pub fn stored_block(&mut self) -> Result<Option<Bytes>> {
        if self.comes_to_block().is_some() { self.blocks.stored(&mut self.at) } else { Ok(None) }
    }

    /// The block with its entries.
    pub fn whole_block(&self, sealed: Bytes) -> WholeBlock<'_> {
        WholeBlock { entries: &self.at, sealed }
    }

    /// Moves to the first entry after the current block.
    pub fn skip_block(&mut self) -> Result<()> {
        self.blocks.skip_block(&mut self.at)
    }

    /// See [`BlockCursor::next_distinct_user_key`].
    #[inline]
    pub fn next_distinct_user_key(&mut self, wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        self.at.next_distinct_user_key(wanted)
    }

    /// The decoded entries around the current one.
    #[inline]
    pub fn decoded(&self) -> &BlockCursor {
        &self.at
    }

    /// The whole internal key, of a known kind. The cursor must be valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.at.key()
    }

    /// The user's value. It must have been [fetched](Cursor::fetch) since the last step where
    /// [values are stored separately](crate::placement::ValueStore::separates_values). The cursor
    /// must be valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.values {
            None => self.at.value(),
            Some(_) => {
                let fetched = self.fetched.as_deref();
                debug_assert!(
                    fetched.is_some() || key::apart(self.key()).kind == Kind::Delete,
                    "the value was not fetched"
                );
                fetched.unwrap_or(&[])
            }
        }
    }

    /// Bytes of the internal key and of the stored value. The cursor must be valid.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.at.entry_bytes()
    }

    /// The entry for [`TableSink::keep`](crate::placement::TableSink::keep). The cursor must be
    /// valid.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        EntryRef { key: self.at.key(), stored: self.at.value(), origin: Origin::Table(self.table) }
    }
}
