//! The crash models and fault injection, and storage under them.
mod builds;
mod contract;
mod crash;
mod faults;
mod journal;
mod late;
mod placement;
mod raw;
mod scramble;
