//! Functions for bindings in other languages, which LevelDB's interface does not have:
//!
//! - `kind`: the kind of an error as a number
//! - `open`: read-only and in-memory stores, and a close that reports its error
//! - `read`: lookups without a copy, and of many keys at once
//! - `chunk`: iterators over a key range that copy many pairs per call
//! - `write`: encoded batches, writes without a WAL, range deletes
//! - `backup`: backups of a store
//! - `whole`: compaction, checkpoint and resumption of a store
//! - `family`, `family_reads`, `family_writes`: column families
//! - `transaction`, `transaction_ops`, `transaction_cursor`: transactions
mod backup;
mod chunk;
mod family;
mod family_reads;
mod family_writes;
pub mod kind;
mod open;
mod read;
mod transaction;
pub mod transaction_cursor;
mod transaction_ops;
mod whole;
mod write;
