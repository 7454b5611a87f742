//! Checks the value pointers of an SSTable, and the numbers of live bytes per segment that the
//! table's metadata records.
use std::collections::BTreeMap;
use terrace_format::{Kind, key};
use terrace_storage::{
    Error, Result,
    placement::{Bytes, ObjectId, Storage, StoredValue, TableMeta, TableReadOptions},
};

/// Reads every value of the table `meta`. Returns a description of the first problem, if any.
pub fn check(storage: &dyn Storage, meta: &TableMeta) -> Result<Option<String>> {
    let how = TableReadOptions { verify: true, fill_cache: false };
    let mut cursor = storage.open_table(meta)?.cursor(how)?;
    let mut live = BTreeMap::<ObjectId, u64>::new();
    cursor.seek_first()?;
    while cursor.valid() {
        let entry = key::apart(cursor.key());
        if entry.kind == Kind::Put {
            storage.value(entry.user, entry.seq, Bytes::from(cursor.value().to_vec()))?;
            let place = || storage.place_of(ObjectId::Table(meta.id));
            let stored = StoredValue::parse(cursor.value()).map_err(|found| Error::corrupt(place(), 0, found))?;
            if let StoredValue::At(pointer) = stored {
                *live.entry(ObjectId::from(&pointer)).or_default() += pointer.kept_bytes();
            }
        }
        cursor.next()?;
    }
    let claimed: BTreeMap<ObjectId, u64> = meta.segments().collect();
    Ok((live != claimed).then(|| format!("it keeps {live:?} bytes alive, the manifest says {claimed:?}")))
}
