//! The contracts of storage backends and durability modes, through the public interface.
mod contract;
mod damage;
mod directory;
mod leveldb;
mod mapped;
mod raw_journal;
