//! Synchronisation primitives (atomics, locks and condition variables) for the modules that `make
//! loom` model-checks.
//!
//! With `cfg(loom)` the primitives are those of the model checker Loom, which runs every
//! interleaving of a few threads, with every value that their loads may return. In all other
//! builds the primitives are those of `std` and `parking_lot`.
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
