//! Synchronisation primitives of the parts that `make loom` model-checks: atomics, locks and
//! condition variables.
//!
//! With `cfg(loom)` they are Loom's, which tries every interleaving of a few threads and every
//! value that their loads may see. Otherwise they are `std`'s and `parking_lot`'s.
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
