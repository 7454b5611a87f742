//! The locks of the model checker Loom, with the interface of the locks of `parking_lot`.
use std::ops::{Deref, DerefMut};

use loom::hint;

/// A lock that stays usable after a thread has panicked while it held the lock (no poisoning).
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// A guard: a thread holds the lock as long as it has the guard. The guard is empty only while a
/// condition variable has released the lock.
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// Makes an unlocked lock.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// Waits until the lock is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect("a panic ends the model")))
    }

    /// Returns the value without locking. The `&mut` reference proves that no other thread can
    /// hold the lock.
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
    /// Makes a condition variable without waiters.
    pub fn new() -> Condvar {
        Condvar(loom::sync::Condvar::new())
    }

    /// Releases the lock, waits for a notification, and takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("held");
        guard.0 = Some(self.0.wait(held).expect("a panic ends the model"));
    }

    /// Wakes one thread that waits for a notification.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// Checks `ready` once instead of spinning. Spinning would add nothing, because no time passes in
/// a model: every step that other threads take during a spin they also take while this thread
/// sleeps.
pub fn spin_until(ready: impl Fn() -> bool) -> bool {
    let now = ready();
    hint::spin_loop();
    now
}

/// Represents bytes that one thread writes before it makes them visible to other threads. If
/// another thread's read is not ordered after the write, the model check fails.
#[derive(Debug)]
pub struct Witness(loom::cell::UnsafeCell<()>);

impl Witness {
    /// Marks the bytes as being written.
    pub fn new() -> Witness {
        let cell = loom::cell::UnsafeCell::new(());
        cell.with_mut(drop);
        Witness(cell)
    }

    /// Marks the bytes as being read.
    pub fn read(&self) {
        self.0.with(drop);
    }
}
