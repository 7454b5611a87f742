//! The arena of a memtable's skip list. It allocates the nodes of the list from large blocks. The
//! blocks never move, and they are freed together. All of the engine's unsafe code is in this
//! file, except one line in `skiplist` that follows a link.
//!
//! ```text
//!                          NodeId, 8-aligned
//!                          ▼
//! node:  link h-1 … link 1 │ link 0 │ back link │ user key bytes u32 │ value bytes u32
//!                          │ user key │ trailer │ value
//! The links above level 0 precede the address that is the node's id. The node stores no height.
//! ```
//! Three rules make the unsafe code sound. Each SAFETY comment names the rules it depends on.
//! 1. *Owner*: a node id is used only with the arena that made it, and only while that arena
//!    exists. The skip list owns its arena. It passes ids only to the memtable's cursor, and the
//!    cursor keeps the memtable alive.
//! 2. *Stable*: a block is neither moved nor freed before the arena is dropped, and no two nodes
//!    share a byte.
//! 3. *Initialised*: [`Arena::node`] writes everything in a node except its links before it returns
//!    the node's id. Nothing writes these bytes afterwards. Threads pass an id to each other only
//!    through a [`Link`], stored with Release and loaded with Acquire.
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
/// The size of an arena's first block, in bytes. Each further block is twice as large as the
/// previous one, up to the maximum size.
const BLOCK_BYTES_MIN: usize = 16 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Blocks of at least this size, in bytes, are mapped pages. When the arena is dropped, the page
/// pool gives the pages to the next memtable or returns them to the kernel.
const PAGES_BYTES_MIN: usize = 128 << 10;

/// Returns `count` words that are zero. The operating system gives memory to a page of a large
/// result only when the page is written.
pub fn zeroed_words(count: usize) -> Box<[std::sync::atomic::AtomicU64]> {
    let words = Box::<[std::sync::atomic::AtomicU64]>::new_zeroed_slice(count);
    // SAFETY: an `AtomicU64` has the bits of a `u64`, for which zeros are valid.
    unsafe { words.assume_init() }
}

#[repr(C)]
struct Node {
    next: Link,
    prev: Link,
    user_bytes: u32,
    value_bytes: u32,
    initialised: Witness, // of the bytes that follow the header
}

/// The id of a node. It is valid in the arena that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(NonNull<Node>);

// SAFETY: an id is an address. The bytes at that address are immutable or atomic (Initialised),
// and the arena keeps them allocated (Owner).
unsafe impl Send for NodeId {}
// SAFETY: the bytes at the id's address are immutable or atomic (Initialised), and the arena
// keeps them allocated (Owner). An id itself has no interior mutability.
unsafe impl Sync for NodeId {}

/// A link of a skip list: from one node to another, or to no node.
#[derive(Debug, Default)]
pub struct Link(AtomicPtr<Node>);

impl Link {
    /// Returns the linked node, if any. All bytes of this node are initialised.
    pub fn get(&self) -> Option<NodeId> {
        NonNull::new(self.0.load(Acquire)).map(NodeId)
    }

    /// Sets the link to `to`.
    pub fn set(&self, to: Option<NodeId>) {
        self.0.store(address(to), Release);
    }

    /// Sets the link to `to` if it is `from`. Returns whether it was `from`.
    pub fn replace(&self, from: Option<NodeId>, to: NodeId) -> bool {
        self.0.compare_exchange(address(from), to.0.as_ptr(), Release, Relaxed).is_ok()
    }
}

fn address(id: Option<NodeId>) -> *mut Node {
    id.map_or(ptr::null_mut(), |id| id.0.as_ptr())
}

/// The memory of one block. When this value is dropped, the memory returns to its source: the
/// heap, the kernel or the page pool.
enum BlockMemory {
    Heap(NonNull<u8>, Layout),
    /// Mapped pages for a single large node. They have exactly the size of the node.
    Pages(Pages),
    /// Mapped pages of a block that several nodes share. They return to the page pool, so the next
    /// memtable can reuse them.
    PooledPages(PooledPages),
}

impl BlockMemory {
    /// Allocates `bytes` bytes, which must be more than 0. `dedicated` means that the block
    /// contains only one node.
    fn new(bytes: usize, dedicated: bool, budget: &Arc<Budget>) -> BlockMemory {
        if let Some(bytes) = NonZeroUsize::new(bytes).filter(|bytes| bytes.get() >= PAGES_BYTES_MIN) {
            let pages = if dedicated {
                Pages::new(bytes).map(BlockMemory::Pages)
            } else {
                budget.lend(bytes).map(BlockMemory::PooledPages)
            };
            if let Ok(memory) = pages {
                return memory;
            }
        }
        let layout = Layout::from_size_align(bytes, ALIGN).expect("a batch fits into memory");
        // SAFETY: `layout` has a size above zero.
        let Some(start) = NonNull::new(unsafe { alloc::alloc(layout) }) else { alloc::handle_alloc_error(layout) };
        BlockMemory::Heap(start, layout)
    }

    fn start(&self) -> NonNull<u8> {
        match self {
            BlockMemory::Heap(start, _) => *start,
            BlockMemory::Pages(pages) => pages.start(),
            BlockMemory::PooledPages(pages) => pages.start(),
        }
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        if let BlockMemory::Heap(start, layout) = self {
            // SAFETY: the memory was allocated by `alloc` with this layout, and only this drop
            // frees it.
            unsafe { alloc::dealloc(start.as_ptr(), *layout) };
        }
    }
}

/// A block of memory. Nodes are allocated from its start towards its end.
struct Block {
    start: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    _room: BlockMemory,
    initialised: Witness, // of the fields above
}

/// The memory of all nodes of a skip list. Any thread may allocate a node; all nodes are freed
/// together.
pub struct Arena {
    /// The shared block that nodes are allocated from; one of `blocks`.
    current: AtomicPtr<Block>,
    /// All blocks, made by `Box::into_raw`. Locked while a block is added.
    blocks: Mutex<Vec<NonNull<Block>>>,
    held: Held,
}

// SAFETY: blocks are reached by shared reference only, and an atomic counter gives each caller a
// different part of a block (Stable).
unsafe impl Send for Arena {}
// SAFETY: threads share blocks by shared reference only, and an atomic counter gives each caller
// a different part of a block (Stable).
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes an arena without memory. `held` reports the memory of its blocks to the memory budget.
    pub fn new(held: Held) -> Arena {
        Arena { current: AtomicPtr::default(), blocks: Mutex::default(), held }
    }

    /// Makes a node with `height` empty links. Its value is the concatenation of `head` and `tail`.
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
            initialised: Witness::new(),
        };
        // SAFETY: the `bytes` bytes from `start` belong to this node alone (Stable). They are
        // aligned for `Node` and `Link`, whose sizes are multiples of that alignment. The parts of
        // the node follow one another within these bytes.
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

    /// Returns the node's link at `height`.
    ///
    /// # Safety
    /// The node has more links than `height`.
    pub unsafe fn link(&self, node: NodeId, height: usize) -> &Link {
        // SAFETY: the node exists as long as the arena (Owner, Stable). The caller guarantees that
        // the node has a link at `height`.
        unsafe { node.0.cast::<Link>().sub(height).as_ref() }
    }

    /// Returns the node's back link.
    pub fn back(&self, node: NodeId) -> &Link {
        // SAFETY: the node exists as long as the arena (Owner, Stable).
        unsafe { &(*node.0.as_ptr()).prev }
    }

    /// Returns the node's internal key.
    pub fn key(&self, node: NodeId) -> &[u8] {
        // SAFETY: the bytes follow the node's header, exist as long as the arena, and never change
        // (Owner, Stable, Initialised).
        unsafe {
            let Node { user_bytes, initialised, .. } = &*node.0.as_ptr();
            initialised.read();
            slice::from_raw_parts(node.0.add(1).cast::<u8>().as_ptr(), *user_bytes as usize + TRAILER_BYTES)
        }
    }

    /// Returns the node's user key.
    pub fn user(&self, node: NodeId) -> &[u8] {
        // SAFETY: the user key is the first part of the internal key. The bytes are in the node,
        // exist as long as the arena, and never change (Owner, Stable, Initialised).
        unsafe {
            let Node { user_bytes, initialised, .. } = &*node.0.as_ptr();
            initialised.read();
            slice::from_raw_parts(node.0.add(1).cast::<u8>().as_ptr(), *user_bytes as usize)
        }
    }

    /// Returns the node's value.
    pub fn value(&self, node: NodeId) -> &[u8] {
        // SAFETY: the value follows the key within the node. Its bytes exist as long as the arena
        // and never change (Owner, Stable, Initialised).
        unsafe {
            let Node { user_bytes, value_bytes, initialised, .. } = &*node.0.as_ptr();
            initialised.read();
            let key = node.0.add(1).cast::<u8>();
            slice::from_raw_parts(key.add(*user_bytes as usize + TRAILER_BYTES).as_ptr(), *value_bytes as usize)
        }
    }

    /// Allocates `bytes` bytes. `bytes` must be a multiple of the alignment.
    fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let current = self.current.load(Acquire);
        // SAFETY: the pointer is null, or the address of a block that exists as long as the arena.
        // The block was initialised before its address was stored in `current`.
        match unsafe { current.as_ref() }.and_then(|block| block.allocate(bytes)) {
            Some(start) => start,
            None => self.grow(current, bytes),
        }
    }

    /// Allocates `bytes` bytes as [`allocate`](Arena::allocate) does, when the current block `full`
    /// has no room for them. Takes the bytes from another block, which it adds if necessary.
    #[cold]
    fn grow(&self, full: *mut Block, bytes: usize) -> NonNull<u8> {
        let mut blocks = self.blocks.lock();
        if self.current.load(Relaxed) != full {
            drop(blocks);
            return self.allocate(bytes); // another thread has added a block
        }
        let shared_size = (BLOCK_BYTES_MIN << blocks.len().min(16)).min(BLOCK_BYTES_MAX);
        // A large node gets a block of its own. Smaller nodes continue to use the current block.
        let dedicated = bytes > shared_size / 4;
        let size = if dedicated { bytes } else { shared_size };
        let memory = BlockMemory::new(size, dedicated, self.held.budget());
        let (start, used, initialised) = (memory.start(), AtomicUsize::new(bytes), Witness::new());
        let block = Box::into_raw(Box::new(Block { start, bytes: size, used, _room: memory, initialised }));
        blocks.push(NonNull::new(block).expect("a box is not null"));
        if !dedicated {
            self.current.store(block, Release);
        }
        drop(blocks);
        self.held.add(size as u64);
        start
    }
}

impl Block {
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.initialised.read();
        let fits = |at: usize| at.checked_add(bytes).filter(|end| *end <= self.bytes);
        let at = self.used.fetch_update(Relaxed, Relaxed, fits).ok()?;
        // SAFETY: the range ends within the block, and the counter gives each byte to one caller
        // only.
        Some(unsafe { self.start.add(at) })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Before the pages return to the page pool, which counts them from then on.
        self.held.set(0);
        for block in self.blocks.get_mut().drain(..) {
            // SAFETY: the block was made by `Box::into_raw`, and no reference to the block is left.
            // Nodes have nothing to drop.
            drop(unsafe { Box::from_raw(block.as_ptr()) });
        }
    }
}
