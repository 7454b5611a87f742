//! An order of keys that a Python function defines.
use pyo3::{exceptions::PyException, prelude::*, types::PyBytes};
use std::{
    cmp::Ordering,
    panic::resume_unwind,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

/// A function that compares two keys and returns a number below, equal to or above 0.
///
/// If the function raises an exception, the comparison unwinds with it. The engine then stops the
/// writes of the store before a wrong order reaches storage, and the exception is raised by the
/// call that needed the comparison.
pub struct Order {
    name: String,
    compare: Py<PyAny>,
    /// The first exception that the function raised, the cause of later errors.
    failure: Mutex<Option<PyErr>>,
    /// A `KeyboardInterrupt` that arrived during a comparison, and its thread. The comparison was
    /// repeated, so the interrupt had no effect on the store. It is raised at the end of the
    /// thread's call.
    interrupt: Mutex<Option<(ThreadId, PyErr)>>,
}

impl Order {
    /// Returns the order with the name `name`, which the store records.
    pub fn new(name: String, compare: Py<PyAny>) -> Order {
        Order { name, compare, failure: Mutex::new(None), interrupt: Mutex::new(None) }
    }

    /// Returns the interrupt of this thread's call, if there was one.
    pub fn take_interrupt(&self) -> Option<PyErr> {
        let here = thread::current().id();
        lock(&self.interrupt).take_if(|(thread, _)| *thread == here).map(|(_, raised)| raised)
    }

    /// Returns the first exception that the function raised.
    pub fn failure(&self, py: Python<'_>) -> Option<PyErr> {
        lock(&self.failure).as_ref().map(|raised| raised.clone_ref(py))
    }

    fn call(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        let answer = self.compare.bind(py).call1((PyBytes::new(py, a), PyBytes::new(py, b)))?;
        match answer.extract::<i64>() {
            Ok(number) => Ok(number.cmp(&0)),
            Err(_) => answer.compare(0), // a fraction, or a number beyond 64 bits
        }
    }

    /// Calls the function. Repeats the call once if an exception other than an error, such as
    /// `KeyboardInterrupt`, arrived from outside.
    fn answer(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        match self.call(py, a, b) {
            Err(raised) if !raised.is_instance_of::<PyException>(py) => {
                *lock(&self.interrupt) = Some((thread::current().id(), raised));
                self.call(py, a, b)
            }
            answer => answer,
        }
        .inspect_err(|raised| {
            lock(&self.failure).get_or_insert_with(|| raised.clone_ref(py));
        })
    }
}

impl terrace::Comparator for Order {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match Python::try_attach(|py| self.answer(py, a, b)) {
            Some(Ok(order)) => order,
            Some(Err(raised)) => resume_unwind(Box::new(raised)),
            None => resume_unwind(Box::new("the interpreter has ended")),
        }
    }
}

fn lock<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}
