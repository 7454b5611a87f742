//! A view: the memtables and the version that a reader pins at one moment.
use crate::{mem::MemTable, version::Version};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::FamilyId;

/// The memtables and the versions of all column families at one moment. A view is immutable; a
/// change replaces the whole view.
#[derive(Clone)]
pub struct View {
    /// The mutable memtable of the default family; `None` in a store opened read-only.
    pub mem: Option<Arc<MemTable>>,
    /// Immutable memtables of the default family that wait for a flush, newest first.
    pub sealed: Vec<Arc<MemTable>>,
    /// The SSTables of the default family. The version also has those of all other families.
    pub version: Arc<Version>,
    /// The memtables of the other column families. A family without memtables may be missing.
    pub families: Arc<BTreeMap<FamilyId, FamilyMemtables>>,
}

/// The memtables of a column family other than the default one.
#[derive(Clone, Default)]
pub struct FamilyMemtables {
    /// The mutable memtable; `None` if no write to this family has arrived since the last rotation
    /// of the WAL.
    pub mem: Option<Arc<MemTable>>,
    /// Immutable memtables that wait for a flush, newest first.
    pub sealed: Vec<Arc<MemTable>>,
}

/// The part of a view that belongs to one column family.
#[derive(Clone, Copy)]
pub struct TreeView<'a> {
    /// The column family.
    pub family: FamilyId,
    mem: Option<&'a Arc<MemTable>>,
    sealed: &'a [Arc<MemTable>],
    /// The SSTables.
    pub version: &'a Version,
}

impl View {
    /// Returns the part of the view that belongs to the default family.
    #[inline]
    pub fn main(&self) -> TreeView<'_> {
        TreeView { family: FamilyId::DEFAULT, mem: self.mem.as_ref(), sealed: &self.sealed, version: &self.version }
    }

    /// Returns the part of the view that belongs to column family `family`; `None` if the family
    /// does not exist.
    #[inline]
    pub fn tree(&self, family: FamilyId) -> Option<TreeView<'_>> {
        if family == FamilyId::DEFAULT { Some(self.main()) } else { self.family(family) }
    }

    fn family(&self, family: FamilyId) -> Option<TreeView<'_>> {
        let version = self.version.tree(family)?;
        Some(match self.families.get(&family) {
            Some(memtables) => TreeView { family, mem: memtables.mem.as_ref(), sealed: &memtables.sealed, version },
            None => TreeView { family, mem: None, sealed: &[], version },
        })
    }

    /// Returns the immutable memtables of each column family that has some, newest first.
    pub fn sealed(&self) -> impl Iterator<Item = (FamilyId, &[Arc<MemTable>])> {
        let others = self.families.iter().map(|(id, memtables)| (*id, &*memtables.sealed));
        std::iter::once((FamilyId::DEFAULT, &*self.sealed)).chain(others).filter(|(_, sealed)| !sealed.is_empty())
    }

    /// Returns every memtable of every column family.
    pub fn all_memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        let others = self.families.values().flat_map(|memtables| memtables.mem.iter().chain(&memtables.sealed));
        self.main().memtables().chain(others)
    }
}

impl<'a> TreeView<'a> {
    /// Returns every memtable, newest first.
    pub fn memtables(self) -> impl Iterator<Item = &'a Arc<MemTable>> {
        self.mem.into_iter().chain(self.sealed)
    }
}
