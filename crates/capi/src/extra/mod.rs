//! Functions for bindings in other languages, which LevelDB's interface does not have:
//!
//! - `kind`: the kind of an error as a number
//! - `open`: read-only and in-memory stores, and a close that reports its error
//! - `read`: lookups without a copy, and of many keys at once
//! - `chunk`: iterators over a key range that copy many pairs per call
//! - `write`: encoded batches, writes without a WAL, range deletes
//! - `whole`: compaction, checkpoint and resumption of a store
mod chunk;
pub mod kind;
mod open;
mod read;
mod whole;
mod write;
