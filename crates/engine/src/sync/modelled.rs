//! Loom's locks with the faces of `parking_lot`'s.
use std::ops::{Deref, DerefMut};

use loom::hint;

/// A lock without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// A held lock; empty only while a condition variable has it.
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// Nobody holds it.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// Waits for whoever holds it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect("a panic ends the model")))
    }

    /// What nobody else can hold.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("a panic ends the model")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held")
    }
}

/// A condition variable.
#[derive(Debug)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// Nobody waits.
    pub fn new() -> Condvar {
        Condvar(loom::sync::Condvar::new())
    }

    /// Lets the lock go until somebody notifies.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("held");
        guard.0 = Some(self.0.wait(held).expect("a panic ends the model"));
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// Looks once: no time passes in a model, and what else the others do while somebody waits awake, they do while it sleeps.
pub fn spin_until(ready: impl Fn() -> bool) -> bool {
    let now = ready();
    hint::spin_loop();
    now
}

/// Stands for bytes that are written before others may see them: whoever reads them without being ordered behind their
/// writing fails the model.
#[derive(Debug)]
pub struct Witness(loom::cell::UnsafeCell<()>);

impl Witness {
    /// The bytes are being written.
    pub fn new() -> Witness {
        let cell = loom::cell::UnsafeCell::new(());
        cell.with_mut(drop);
        Witness(cell)
    }

    /// The bytes are being read.
    pub fn read(&self) {
        self.0.with(drop);
    }
}
