//! Tests that storage backends and durability modes fulfil their contracts, through the public
//! interface.
mod contract;
mod damage;
mod directory;
mod leveldb;
mod raw_journal;
mod sparse_index;

// Mapped files, which only Linux has.
#[cfg(target_os = "linux")]
mod mapped;
