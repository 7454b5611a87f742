//! Cursors over tables. A cursor has the decoded entries of one block of the table, and a source
//! from which it gets the next block.
use crate::{
    Result,
    tables::{EntryRef, Origin},
};
use terrace_format::{
    Kind, TableId,
    block::{BlockCursor, Bytes},
    key,
};

/// The source of a table's blocks for a [`Cursor`]. The methods move the block cursor `at`, if
/// necessary to another block of the table. A cursor calls a method only when it leaves the
/// entries that `at` has decoded, so one call serves many entries. A source returns only keys that
/// are complete internal keys of a known kind, whatever bytes are stored. After an error, and if
/// there is no entry at the requested position, `at` is invalid (at no entry).
pub trait Blocks: Send {
    /// Moves `at` to the first entry at or after `key`.
    fn seek(&mut self, key: &[u8], at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` to the first entry of the table.
    fn seek_first(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` to the last entry of the table.
    fn seek_last(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` forward by one entry, if necessary to the next block.
    fn next(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` back by one entry, if necessary to the previous block.
    fn prev(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Moves `at` to the first entry after the current block.
    fn skip_block(&mut self, at: &mut BlockCursor) -> Result<()>;
    /// Returns an upper bound of the keys in the current block.
    fn bound(&self) -> Option<&[u8]>;
    /// Returns the current block of `at` in its stored form, with its trailer, and decodes all
    /// entries of the block. Returns an error if an entry is above the block's upper bound. Returns
    /// `None` in four cases: the block has too many entries, it was read alone and not in a longer
    /// read, its checksum was not verified, or `at` has only a copy of one entry.
    fn stored(&self, at: &mut BlockCursor) -> Result<Option<Bytes>>;
}

/// A block in its stored form, for
/// [`TableSink::keep_block`](crate::placement::TableSink::keep_block).
pub struct WholeBlock<'a> {
    /// All entries of the block, decoded.
    pub entries: &'a BlockCursor,
    /// The block with its trailer. It may be compressed. Its checksum was verified.
    pub sealed: Bytes,
}

/// Reads values that are stored outside of the table's blocks.
pub trait Values: Send {
    /// Returns the user's value of `entry`, a put whose stored form in the table is `stored`.
    fn fetch(&mut self, entry: EntryRef<'_>) -> Result<Bytes>;
}

/// Iterates over the entries of a table in internal-key order. A cursor is valid while it is at an
/// entry. It is invalid before it is positioned, after an error, and after a move to a position
/// without an entry.
pub struct Cursor {
    table: TableId,
    /// The current block, with its decoded entries. This field must be dropped before `blocks`,
    /// which reuses the memory of the block.
    at: BlockCursor,
    blocks: Box<dyn Blocks>,
    /// Reads values that are not in the blocks; `None` if the blocks contain all values.
    values: Option<Box<dyn Values>>,
    fetched: Option<Bytes>,
}

impl Cursor {
    /// Makes a cursor over the entries of `table`. `blocks` finds the table's blocks. The cursor is
    /// invalid until it is positioned.
    pub fn new(table: TableId, blocks: Box<dyn Blocks>) -> Cursor {
        Cursor { table, blocks, at: BlockCursor::default(), values: None, fetched: None }
    }

    /// Makes the cursor read its values with `values`, because the blocks contain references
    /// instead of values.
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

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.at.valid()
    }

    /// Moves the cursor to the first entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.blocks.seek(key, &mut self.at)
    }

    /// Moves the cursor to the first entry of the table.
    pub fn seek_first(&mut self) -> Result<()> {
        self.blocks.seek_first(&mut self.at)
    }

    /// Moves the cursor to the last entry of the table.
    pub fn seek_last(&mut self) -> Result<()> {
        self.blocks.seek_last(&mut self.at)
    }

    /// Moves the cursor, which must be valid, to the next entry. If there is no next entry, the
    /// cursor becomes invalid.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a cursor moves both ways and can fail")]
    pub fn next(&mut self) -> Result<()> {
        if self.at.step_forward() { Ok(()) } else { self.blocks.next(&mut self.at) }
    }

    /// Moves the cursor, which must be valid, to the previous entry. If there is no previous entry,
    /// the cursor becomes invalid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.at.step_back() { Ok(()) } else { self.blocks.prev(&mut self.at) }
    }

    /// Moves the cursor, which must be valid, to the next entry if this needs neither a read nor
    /// decoding. Otherwise the cursor does not move, and the method returns false.
    #[inline]
    pub fn step_forward(&mut self) -> bool {
        self.at.step_forward()
    }

    /// Moves the cursor, which must be valid, to the previous entry if this needs neither a read
    /// nor decoding. Otherwise the cursor does not move, and the method returns false.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        self.at.step_back()
    }

    /// If the cursor is at the first entry of the current block, returns an upper bound of the keys
    /// in the block. Otherwise returns `None`.
    #[inline]
    pub fn comes_to_block(&self) -> Option<&[u8]> {
        if self.at.is_first() { self.blocks.bound().filter(|_| self.values.is_none()) } else { None }
    }

    /// Returns the current block as it is stored, if the stored form is available. All entries of
    /// the block are then decoded.
    pub fn stored_block(&mut self) -> Result<Option<Bytes>> {
        if self.comes_to_block().is_some() { self.blocks.stored(&mut self.at) } else { Ok(None) }
    }

    /// Combines `sealed`, the stored form of the current block, with the decoded entries of the
    /// cursor.
    pub fn whole_block(&self, sealed: Bytes) -> WholeBlock<'_> {
        WholeBlock { entries: &self.at, sealed }
    }

    /// Moves the cursor to the first entry after the current block.
    pub fn skip_block(&mut self) -> Result<()> {
        self.blocks.skip_block(&mut self.at)
    }

    /// Moves the cursor as [`BlockCursor::next_distinct_user_key`] does.
    #[inline]
    pub fn next_distinct_user_key(&mut self, wanted: impl FnOnce(&[u8]) -> bool) -> bool {
        self.at.next_distinct_user_key(wanted)
    }

    /// Returns the block cursor, which has the decoded entries around the current one.
    #[inline]
    pub fn decoded(&self) -> &BlockCursor {
        &self.at
    }

    /// Returns the complete internal key of the current entry. Its kind is a known one. The cursor
    /// must be valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.at.key()
    }

    /// Returns the user's value of the current entry. If [values are stored
    /// separately](crate::placement::ValueStore::separates_values), the value must have been
    /// [fetched](Cursor::fetch) since the last move. The cursor must be valid.
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

    /// Returns the size in bytes of the current entry: its internal key and its stored value. The
    /// cursor must be valid.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.at.entry_bytes()
    }

    /// Returns the current entry, for [`TableSink::keep`](crate::placement::TableSink::keep). The
    /// cursor must be valid.
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        EntryRef { key: self.at.key(), stored: self.at.value(), origin: Origin::Table(self.table) }
    }
}
