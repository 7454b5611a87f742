//! Contracts of placements and durability tiers, from outside.
mod contract;
mod damage;
mod directory;
mod leveldb;
mod mapped;
mod raw_journal;
