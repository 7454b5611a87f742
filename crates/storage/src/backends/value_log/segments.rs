//! Open segments, as many as there may be; the one read longest ago is closed first.
use crate::{
    Result,
    placement::{ObjectId, Placement, SegmentReader},
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Each is a descriptor.
pub(super) struct Segments {
    most: usize,
    open: Mutex<Open>, // a leaf lock; no I/O under it
}

#[derive(Default)]
struct Open {
    readers: HashMap<ObjectId, Reader>,
    /// Counts reads.
    now: u64,
}

struct Reader {
    segment: Arc<dyn SegmentReader>,
    read: u64,
}

impl Segments {
    /// At most `most` are kept open.
    pub fn new(most: usize) -> Segments {
        Segments { most: most.max(1), open: Mutex::default() }
    }

    /// The segment, opened if need be.
    pub fn get(&self, inner: &dyn Placement, object: ObjectId) -> Result<Arc<dyn SegmentReader>> {
        if let Some(segment) = self.open.lock().get(object) {
            return Ok(segment);
        }
        let segment = inner.open_segment(object)?;
        let closed = self.open.lock().add(object, segment.clone(), self.most);
        drop(closed); // which is I/O
        Ok(segment)
    }

    /// Closes a segment that is about to be removed.
    pub fn forget(&self, object: ObjectId) {
        let closed = self.open.lock().readers.remove(&object);
        drop(closed);
    }
}

impl Open {
    fn get(&mut self, object: ObjectId) -> Option<Arc<dyn SegmentReader>> {
        self.now += 1;
        let reader = self.readers.get_mut(&object)?;
        reader.read = self.now;
        Some(reader.segment.clone())
    }

    /// Keeps one more; what has to go for it.
    fn add(&mut self, object: ObjectId, segment: Arc<dyn SegmentReader>, most: usize) -> Vec<Reader> {
        let mut closed: Vec<_> = self.readers.insert(object, Reader { segment, read: self.now }).into_iter().collect();
        while self.readers.len() > most {
            let Some(oldest) = self.readers.iter().min_by_key(|(_, reader)| reader.read).map(|(object, _)| *object)
            else {
                break;
            };
            closed.extend(self.readers.remove(&oldest));
        }
        closed
    }
}
