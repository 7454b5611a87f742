//! Tests of backups: contents, sharing, crashes, faults and damage.
mod crashes;
mod damage;
mod faults;
mod kit;
mod stores;
