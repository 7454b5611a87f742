//! Recognises the files of directory tables from the kernel's trace of inode creation. A directory
//! table is an SSTable in the form of a directory, with one file per entry.
//!
//! The ledger cannot list the directories of such a store repeatedly, because this would cost more
//! than the work of the store. It cannot remember the name of each file, because this would take
//! too much memory. Every file that is created in a directory table is an entry, so the inode of
//! the parent directory suffices to recognise it.
use std::collections::HashSet;

/// The set of inodes that are directory tables (SSTables with one file per entry), or files in
/// them.
#[derive(Default)]
pub struct EntryFiles {
    /// Inodes of the directory tables that were created since the start.
    folders: HashSet<u64>,
    /// One bit per inode, which is set for the file of an entry. A bitmap is small enough, because
    /// the inode numbers of a file system are dense.
    bits: Vec<u64>,
}

impl EntryFiles {
    /// Handles the creation of a file or directory `inode` in the directory `within`. `is_level`
    /// returns whether a directory contains directory tables. The inode number may have belonged to
    /// another file, which was deleted.
    pub fn made(&mut self, inode: u64, within: u64, is_folder: bool, is_level: impl FnOnce(u64) -> bool) {
        self.folders.remove(&inode);
        let in_table = self.folders.contains(&within);
        self.set(inode, in_table);
        if !in_table && is_folder && is_level(within) {
            self.folders.insert(inode);
        }
    }

    /// Returns `tables` for the file of an entry, `directory` for a directory table, and `None` for
    /// any other file.
    pub fn kind(&self, inode: u64) -> Option<&'static str> {
        let is_pair = self.bits.get((inode / 64) as usize).is_some_and(|bits| bits >> (inode % 64) & 1 != 0);
        let is_folder = || self.folders.contains(&inode).then_some("directory");
        if is_pair { Some("tables") } else { is_folder() }
    }

    fn set(&mut self, inode: u64, is_pair: bool) {
        let at = (inode / 64) as usize;
        if is_pair && at >= self.bits.len() {
            self.bits.resize(at + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(at) {
            let bit = 1 << (inode % 64);
            *bits = if is_pair { *bits | bit } else { *bits & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_a_directory_table_is_an_entry_until_its_inode_is_reused() {
        let mut pairs = EntryFiles::default();
        let mut made = |inode, within, is_folder| pairs.made(inode, within, is_folder, |folder| folder == 20);
        made(30, 20, true); // an SSTable
        made(1000, 30, false);
        made(31, 20, false); // a file next to SSTables
        made(40, 10, true); // not a level
        made(41, 40, false);
        let kinds = [30, 31, 40, 41, 999, 1000, 1001, 1 << 40].map(|inode| pairs.kind(inode));
        assert_eq!(kinds, [Some("directory"), None, None, None, None, Some("tables"), None, None]);
        pairs.made(1000, 10, false, |_| false);
        assert_eq!(pairs.kind(1000), None, "the inode was reused");
        pairs.made(30, 10, true, |_| false);
        pairs.made(1001, 30, false, |_| false);
        assert_eq!([30, 1001].map(|inode| pairs.kind(inode)), [None; 2], "the directory's inode was reused");
    }
}
