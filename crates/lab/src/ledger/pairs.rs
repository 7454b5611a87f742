//! Files in the folders of directory tables, told by the kernel's word on each inode that it gives out.
//!
//! Such a store has a file for each pair. To find theirs by listing folders again and again would cost more than the store
//! itself, and a name for each more memory; that they are pairs follows from where they were made.
use std::collections::HashSet;

/// Which inodes are in the folder of a table.
#[derive(Default)]
pub struct Pairs {
    /// Folders of tables that were made since.
    folders: HashSet<u64>,
    /// A bit for each inode; numbers of a file system are dense.
    bits: Vec<u64>,
}

impl Pairs {
    /// The kernel gave `inode` to a new file or folder in the folder `within`. A number comes again once its file is deleted.
    pub fn made(&mut self, inode: u64, within: u64, is_folder: bool, is_level: impl FnOnce(u64) -> bool) {
        self.folders.remove(&inode);
        let in_table = self.folders.contains(&within);
        self.set(inode, in_table);
        if !in_table && is_folder && is_level(within) {
            self.folders.insert(inode);
        }
    }

    /// The kind of a pair, or of the folder of a table; `None` of any other file.
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
    fn what_is_made_in_the_folder_of_a_table_is_a_pair_until_its_number_comes_again() {
        let mut pairs = Pairs::default();
        let mut made = |inode, within, is_folder| pairs.made(inode, within, is_folder, |folder| folder == 20);
        made(30, 20, true); // a table
        made(1000, 30, false);
        made(31, 20, false); // a file beside tables
        made(40, 10, true); // no level
        made(41, 40, false);
        let kinds = [30, 31, 40, 41, 999, 1000, 1001, 1 << 40].map(|inode| pairs.kind(inode));
        assert_eq!(kinds, [Some("directory"), None, None, None, None, Some("tables"), None, None]);
        pairs.made(1000, 10, false, |_| false);
        assert_eq!(pairs.kind(1000), None, "another file's now");
        pairs.made(30, 10, true, |_| false);
        pairs.made(1001, 30, false, |_| false);
        assert_eq!([30, 1001].map(|inode| pairs.kind(inode)), [None; 2], "the folder is another one now");
    }
}
