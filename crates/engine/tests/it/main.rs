//! Integration tests of the engine, one module for each suite. All suites are in one binary,
//! because each further binary would be linked with all dependencies once more. Tests that count
//! or limit resources of the whole process run in a separate process ([`common::alone`]).
#![allow(clippy::duplicate_mod, reason = "the fuzzers' crate, which `corpus` includes, takes the same helpers")]

mod allocations;
mod check;
mod checkpoint;
mod column_families;
mod common;
mod compat;
mod concurrency;
mod copy_whole_blocks;
mod corpus;
mod corrupt;
mod crash;
mod creation;
mod damage_campaign;
mod damaged_tables;
mod default_durability;
mod devices;
mod disable_wal;
mod durability;
mod events;
mod failed_syncs;
mod faults;
mod followers;
mod full_disk;
mod ingest;
mod interop;
mod isolation;
mod iteration;
mod kill;
mod leveldb_costs;
mod limits;
mod manual_compaction;
mod memory;
mod metamorphic;
mod model;
mod openers;
mod pairs;
mod properties;
mod range_tombstones;
mod reads;
mod refusals;
mod regressions;
mod regressions_open;
mod repair;
mod seeks;
mod space;
mod space_reclamation;
mod unsynced_bytes;
mod updates;
mod value_log;
mod value_log_gc;
mod wal_corruption;
mod wal_sidecar;
mod when_durable;

// What only Linux has, or shows to a test.
#[cfg(target_os = "linux")]
mod bundles;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod directories;
#[cfg(target_os = "linux")]
mod foreign_files;
#[cfg(target_os = "linux")]
mod forks;
#[cfg(target_os = "linux")]
mod group;
#[cfg(target_os = "linux")]
mod idle_stores;
#[cfg(target_os = "linux")]
mod recovery_memory;
#[cfg(target_os = "linux")]
mod repair_noise;
#[cfg(target_os = "linux")]
mod transactions;
