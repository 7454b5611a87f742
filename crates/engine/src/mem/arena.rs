//! The memory of a skip list: nodes in large blocks that never move and go all at once. The engine's only unsafe file
//! besides the one line in `skiplist` that follows a link.
//!
//! ```text
//! node:  link h-1 … link 1 | link 0 | back link | user key bytes u32 | value bytes u32 | user key | trailer | value
//!                          ^ where a NodeId points; 8-aligned. Higher links lie before it, so no height is stored.
//! ```
//! Three rules make it sound; each SAFETY comment says which it rests on.
//! 1. *Home*: an id is used with the arena that made it, and only while that lives. The list owns its arena and hands ids
//!    to none but the memtable's cursor, which keeps the memtable.
//! 2. *Stay*: a block is neither moved nor freed before the arena is dropped, and no two nodes share a byte.
//! 3. *Whole*: everything in a node but its links is written before its id leaves [`Arena::node`], and never after. An id
//!    goes from thread to thread through a [`Link`] alone, stored with Release and loaded with Acquire.
#![allow(unsafe_code)]
use crate::sync::{
    Mutex, Witness,
    atomic::{
        AtomicPtr, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::{
    alloc::{self, Layout},
    num::NonZeroUsize,
    ptr::{self, NonNull},
    slice,
    sync::Arc,
};
use terrace_format::key::TRAILER_BYTES;
use terrace_storage::{Budget, Held, Pages, PooledPages};

const ALIGN: usize = align_of::<Node>();
/// The first block's size; each later one doubles it, up to the last number.
const BLOCK_BYTES_MIN: usize = 16 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Blocks from this size on are the kernel's pages, which go to the next memtable or back to it.
const PAGES_BYTES_MIN: usize = 128 << 10;

#[repr(C)]
struct Node {
    next: Link,
    prev: Link,
    user_bytes: u32,
    value_bytes: u32,
    whole: Witness, // of the bytes behind it
}

/// Names a node of one arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(NonNull<Node>);

// SAFETY: an id is an address; what it gives access to is immutable or atomic (Whole), and held by the arena (Home).
unsafe impl Send for NodeId {}
// SAFETY: as above; an id itself has no inner state.
unsafe impl Sync for NodeId {}

/// From one node to another, or to none.
#[derive(Debug, Default)]
pub struct Link(AtomicPtr<Node>);

impl Link {
    /// Where it leads; that node is seen whole.
    pub fn get(&self) -> Option<NodeId> {
        NonNull::new(self.0.load(Acquire)).map(NodeId)
    }

    /// Leads to `to` from now on, for whoever looks.
    pub fn set(&self, to: Option<NodeId>) {
        self.0.store(address(to), Release);
    }

    /// Leads to `to`, if it led to `from`.
    pub fn replace(&self, from: Option<NodeId>, to: NodeId) -> bool {
        self.0.compare_exchange(address(from), to.0.as_ptr(), Release, Relaxed).is_ok()
    }
}

fn address(id: Option<NodeId>) -> *mut Node {
    id.map_or(ptr::null_mut(), |id| id.0.as_ptr())
}

/// Where a block's memory is from; it goes back there when this is dropped.
enum Room {
    Heap(NonNull<u8>, Layout),
    /// Of a node's own size.
    Pages(Pages),
    /// Of a usual size, which the next memtable will want too.
    PooledPages(PooledPages),
}

impl Room {
    /// `bytes`, more than none; `own` if one node wants just these.
    fn new(bytes: usize, own: bool, budget: &Arc<Budget>) -> Room {
        if let Some(bytes) = NonZeroUsize::new(bytes).filter(|bytes| bytes.get() >= PAGES_BYTES_MIN) {
            let pages =
                if own { Pages::new(bytes).map(Room::Pages) } else { budget.lend(bytes).map(Room::PooledPages) };
            if let Ok(room) = pages {
                return room;
            }
        }
        let layout = Layout::from_size_align(bytes, ALIGN).expect("a batch fits into memory");
        // SAFETY: `layout` has a size above zero.
        let Some(start) = NonNull::new(unsafe { alloc::alloc(layout) }) else { alloc::handle_alloc_error(layout) };
        Room::Heap(start, layout)
    }

    fn start(&self) -> NonNull<u8> {
        match self {
            Room::Heap(start, _) => *start,
            Room::Pages(pages) => pages.start(),
            Room::PooledPages(pages) => pages.start(),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Room::Heap(start, layout) = self {
            // SAFETY: made by `alloc` with this layout, and freed only here.
            unsafe { alloc::dealloc(start.as_ptr(), *layout) };
        }
    }
}

/// Memory that is handed out from the front.
struct Block {
    start: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    _room: Room,
    whole: Witness, // of the fields before
}

/// Nodes, made by any thread and freed together.
pub struct Arena {
    /// The block that nodes are cut from; one of `blocks`.
    current: AtomicPtr<Block>,
    /// All blocks, made by `Box::into_raw`. Held while a block is added.
    blocks: Mutex<Vec<NonNull<Block>>>,
    held: Held,
}

// SAFETY: blocks are reached by shared reference only and hand out disjoint memory by an atomic counter (Stay).
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// No memory yet; what it takes is counted in `held`.
    pub fn new(held: Held) -> Arena {
        Arena { current: AtomicPtr::default(), blocks: Mutex::default(), held }
    }

    /// Makes a node with `height` links that lead nowhere. Its value comes in two pieces.
    #[inline]
    pub fn node(&self, height: usize, user: &[u8], trailer: u64, [head, tail]: [&[u8]; 2]) -> NodeId {
        let higher = (height - 1) * size_of::<Link>();
        let bytes = higher + size_of::<Node>() + user.len() + TRAILER_BYTES + head.len() + tail.len();
        let start = self.allocate(bytes.next_multiple_of(ALIGN));
        let size = |bytes: usize| u32::try_from(bytes).expect("a batch bounds its keys and values by 32 bits");
        let fields = Node {
            next: Link::default(),
            prev: Link::default(),
            user_bytes: size(user.len()),
            value_bytes: size(head.len() + tail.len()),
            whole: Witness::new(),
        };
        // SAFETY: `bytes` bytes from `start` are ours alone (Stay), aligned for `Node` and `Link`, whose sizes are
        // multiples of that alignment; the parts lie one behind the other within them.
        unsafe {
            let node = start.add(higher).cast::<Node>();
            for height in 1..height {
                node.cast::<Link>().sub(height).write(Link::default());
            }
            node.write(fields);
            let key = node.add(1).cast::<u8>();
            ptr::copy_nonoverlapping(user.as_ptr(), key.as_ptr(), user.len());
            let trailer = trailer.to_le_bytes();
            ptr::copy_nonoverlapping(trailer.as_ptr(), key.add(user.len()).as_ptr(), TRAILER_BYTES);
            let value = key.add(user.len() + TRAILER_BYTES);
            ptr::copy_nonoverlapping(head.as_ptr(), value.as_ptr(), head.len());
            ptr::copy_nonoverlapping(tail.as_ptr(), value.add(head.len()).as_ptr(), tail.len());
            NodeId(node)
        }
    }

    /// The node's link at `height`.
    ///
    /// # Safety
    /// The node has more links than `height`.
    pub unsafe fn link(&self, node: NodeId, height: usize) -> &Link {
        // SAFETY: the node lives as long as the arena (Home, Stay), and by contract this link is one of its own.
        unsafe { node.0.cast::<Link>().sub(height).as_ref() }
    }

    /// The node's back link.
    pub fn back(&self, node: NodeId) -> &Link {
        // SAFETY: the node lives as long as the arena (Home, Stay).
        unsafe { &(*node.0.as_ptr()).prev }
    }

    /// The node's internal key.
    pub fn key(&self, node: NodeId) -> &[u8] {
        // SAFETY: the bytes lie behind the node's head, live as long as the arena, and never change (Home, Stay, Whole).
        unsafe {
            let Node { user_bytes, whole, .. } = &*node.0.as_ptr();
            whole.read();
            slice::from_raw_parts(node.0.add(1).cast::<u8>().as_ptr(), *user_bytes as usize + TRAILER_BYTES)
        }
    }

    /// The node's key as the user gave it.
    pub fn user(&self, node: NodeId) -> &[u8] {
        // SAFETY: as for the whole key.
        unsafe {
            let Node { user_bytes, whole, .. } = &*node.0.as_ptr();
            whole.read();
            slice::from_raw_parts(node.0.add(1).cast::<u8>().as_ptr(), *user_bytes as usize)
        }
    }

    /// The node's value.
    pub fn value(&self, node: NodeId) -> &[u8] {
        // SAFETY: as for the key, which the value follows.
        unsafe {
            let Node { user_bytes, value_bytes, whole, .. } = &*node.0.as_ptr();
            whole.read();
            let key = node.0.add(1).cast::<u8>();
            slice::from_raw_parts(key.add(*user_bytes as usize + TRAILER_BYTES).as_ptr(), *value_bytes as usize)
        }
    }

    /// `bytes` bytes, a multiple of the alignment, that nobody else has.
    fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let current = self.current.load(Acquire);
        // SAFETY: null, or a block that lives as long as the arena; it was published whole.
        match unsafe { current.as_ref() }.and_then(|block| block.cut(bytes)) {
            Some(start) => start,
            None => self.grow(current, bytes),
        }
    }

    /// As [`allocate`](Arena::allocate), after `full` had no room.
    #[cold]
    fn grow(&self, full: *mut Block, bytes: usize) -> NonNull<u8> {
        let mut blocks = self.blocks.lock();
        if self.current.load(Relaxed) != full {
            drop(blocks);
            return self.allocate(bytes); // another thread has grown it
        }
        let usual = (BLOCK_BYTES_MIN << blocks.len().min(16)).min(BLOCK_BYTES_MAX);
        let own = bytes > usual / 4; // a large node has a block of its own, and the current one goes on
        let size = if own { bytes } else { usual };
        let room = Room::new(size, own, self.held.budget());
        let (start, used, whole) = (room.start(), AtomicUsize::new(bytes), Witness::new());
        let block = Box::into_raw(Box::new(Block { start, bytes: size, used, _room: room, whole }));
        blocks.push(NonNull::new(block).expect("a box is nowhere near address zero"));
        if !own {
            self.current.store(block, Release);
        }
        drop(blocks);
        self.held.add(size as u64);
        start
    }
}

impl Block {
    fn cut(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.whole.read();
        let fits = |at: usize| at.checked_add(bytes).filter(|end| *end <= self.bytes);
        let at = self.used.fetch_update(Relaxed, Relaxed, fits).ok()?;
        // SAFETY: the cut ends within the block; the counter gives each byte away once.
        Some(unsafe { self.start.add(at) })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for block in self.blocks.get_mut().drain(..) {
            // SAFETY: made by `Box::into_raw`; nobody can reach it any more. Nodes have nothing to drop.
            drop(unsafe { Box::from_raw(block.as_ptr()) });
        }
    }
}
