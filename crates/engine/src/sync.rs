//! Synchronisation primitives (atomics, locks and condition variables) for the parts that
//! `make loom` model-checks.
//!
//! With `cfg(loom)` they are Loom's primitives. Loom runs every interleaving of a few threads,
//! with every value that their loads may see. In all other builds they are those of `std` and
//! `parking_lot`.
#[cfg(loom)]
mod modelled;
#[cfg(not(loom))]
mod plain;

#[cfg(loom)]
pub use loom::sync::atomic;
#[cfg(loom)]
pub use modelled::{Condvar, Mutex, Witness, spin_until};
#[cfg(not(loom))]
pub use parking_lot::{Condvar, Mutex};
#[cfg(not(loom))]
pub use plain::{Witness, spin_until};
#[cfg(not(loom))]
pub use std::sync::atomic;
