//! Tests that storage backends and durability modes fulfil their contracts, through the public
//! interface.
mod contract;
mod damage;
mod directory;
mod leveldb;
mod raw_journal;
mod sparse_index;

// Mapped files, which only 64-bit Linux has.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod mapped;
