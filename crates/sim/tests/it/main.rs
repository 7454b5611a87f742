//! Tests of the crash models and of fault injection, and of the storage crate on them.
mod builds;
mod contract;
mod crash;
mod faults;
mod journal;
mod late;
mod placement;
mod raw;
mod scramble;
