//! The BPF program that the kernel runs for each open file of the process that reads the iterator.
//! For each file the program outputs a record with two transactions: the transaction of the file's
//! last change, and the newest committed transaction of the file's journal. This module assembles
//! the instructions of the program. The offsets of struct fields come from the BTF of the running
//! kernel.
//!
//! The program writes no kernel memory and uses no map. It skips files of other processes, so a
//! pinned iterator reveals nothing about them.
use super::btf::Btf;

/// The record that the program emits for each file, in native byte order:
///
/// ```text
/// offset  bytes  field
///      0      8  inode number
///      8      4  device
///     12      4  descriptor
///     16      4  transaction of the inode's last change
///     20      4  newest committed transaction
///     24      8  flags of the journal
/// ```
pub const RECORD_BYTES: usize = 32;

/// Stack offset of the record, relative to the frame pointer. The program stores pointers in the
/// eight bytes below the record.
const RECORD: i16 = -(RECORD_BYTES as i16);
const SCRATCH: i16 = RECORD - 8;

/// The magic number in ext4's superblock.
const EXT4_MAGIC: i32 = 0xef53;

/// Numbers of kernel helpers.
const GET_CURRENT_PID_TGID: i32 = 14;
const PROBE_READ_KERNEL: i32 = 113;
const SEQ_WRITE: i32 = 127;

/// Offsets in the iterator's context: `meta`, `task`, `fd`, `file`.
const META: i32 = 0;
const TASK: i32 = 8;
const DESCRIPTOR: i32 = 16;
const FILE: i32 = 24;

/// Registers of the BPF machine. Register 0 has the result of a call, and registers 1 to 5 have
/// its arguments. Registers 6 to 9 keep their values across calls. Register 10 is the frame
/// pointer.
const FRAME: u8 = 10;
const CONTEXT: u8 = 6;
const INODE: u8 = 7;
const SUPER: u8 = 8;
const JOURNAL: u8 = 9;

/// The types of the kernel, of ext4 and of ext4's journal. ext4 and the journal may be modules
/// with their own BTF.
pub struct Types<'a> {
    pub kernel: &'a Btf,
    pub ext4: &'a Btf,
    pub jbd2: &'a Btf,
}

/// Assembles the program, as 64-bit instructions. The error names a type or field that this kernel
/// lacks.
pub fn assemble(types: &Types<'_>) -> Result<Vec<u64>, String> {
    let kernel = |name, field| types.kernel.offset(name, field);
    let mut code = Code::default();
    code.copy(CONTEXT, 1);

    // Skip files of other processes.
    code.load(8, SUPER, CONTEXT, TASK)?;
    code.end_if_zero(SUPER);
    code.call(GET_CURRENT_PID_TGID);
    code.shift_right(0, 32);
    code.load(4, 1, SUPER, kernel("task_struct", "tgid")?)?;
    code.end_unless_same(1, 0);

    // Skip files that are not on ext4.
    code.load(8, 1, CONTEXT, FILE)?;
    code.end_if_zero(1);
    code.load(8, INODE, 1, kernel("file", "f_inode")?)?;
    code.end_if_zero(INODE);
    code.load(8, SUPER, INODE, kernel("inode", "i_sb")?)?;
    code.end_if_zero(SUPER);
    code.load(8, 1, SUPER, kernel("super_block", "s_magic")?)?;
    code.end_unless(1, EXT4_MAGIC);

    code.set(1, 0);
    (SCRATCH..0).step_by(8).for_each(|at| code.store(8, at, 1));
    code.load(8, 1, INODE, kernel("inode", "i_ino")?)?;
    code.store(8, RECORD, 1);
    code.load(4, 1, SUPER, kernel("super_block", "s_dev")?)?;
    code.store(4, RECORD + 8, 1);
    code.load(4, 1, CONTEXT, DESCRIPTOR)?;
    code.store(4, RECORD + 12, 1);

    // The VFS inode is a member of ext4's inode struct.
    let within = types.ext4.offset("ext4_inode_info", "vfs_inode")?;
    code.read(RECORD + 16, 4, INODE, types.ext4.offset("ext4_inode_info", "i_sync_tid")? - within);
    code.load(8, JOURNAL, SUPER, kernel("super_block", "s_fs_info")?)?;
    code.end_if_zero(JOURNAL);
    code.read(SCRATCH, 8, JOURNAL, types.ext4.offset("ext4_sb_info", "s_journal")?);
    code.load(8, JOURNAL, FRAME, SCRATCH.into())?;
    code.end_if_zero(JOURNAL);
    // The program reads the newest committed transaction before the journal's flags. If a commit
    // fails, the kernel sets the abort flag before it stores the commit as the newest one. So if
    // the program reads a failed commit, it also reads the abort flag.
    code.read(RECORD + 20, 4, JOURNAL, types.jbd2.offset("journal_s", "j_commit_sequence")?);
    code.read(RECORD + 24, 8, JOURNAL, types.jbd2.offset("journal_s", "j_flags")?);

    code.load(8, 1, CONTEXT, META)?;
    code.load(8, 1, 1, kernel("bpf_iter_meta", "seq")?)?;
    code.copy(2, FRAME);
    code.add(2, RECORD.into());
    code.set(3, RECORD_BYTES as i32);
    code.call(SEQ_WRITE);
    Ok(code.end())
}

/// The instructions assembled so far, and the indices of the jump instructions whose target is the
/// end of the program.
#[derive(Default)]
struct Code {
    instructions: Vec<u64>,
    jumps: Vec<usize>,
}

impl Code {
    fn push(&mut self, operation: u8, to: u8, from: u8, offset: i16, number: i32) {
        let registers = u64::from(to) | u64::from(from) << 4;
        let (offset, number) = (u64::from(offset as u16), u64::from(number as u32));
        self.instructions.push(u64::from(operation) | registers << 8 | offset << 16 | number << 32);
    }

    fn copy(&mut self, to: u8, from: u8) {
        self.push(0xbf, to, from, 0, 0);
    }

    fn set(&mut self, to: u8, number: i32) {
        self.push(0xb7, to, 0, 0, number);
    }

    fn add(&mut self, to: u8, number: i32) {
        self.push(0x07, to, 0, 0, number);
    }

    fn shift_right(&mut self, to: u8, bits: i32) {
        self.push(0x77, to, 0, 0, bits);
    }

    /// Loads four or eight bytes at `from + offset`. The kernel checks each access, so any pointer
    /// is safe.
    fn load(&mut self, bytes: u8, to: u8, from: u8, offset: i32) -> Result<(), String> {
        let offset =
            i16::try_from(offset).map_err(|_| format!("the field offset {offset} does not fit an instruction"))?;
        self.push(if bytes == 8 { 0x79 } else { 0x61 }, to, from, offset, 0);
        Ok(())
    }

    /// Stores a register on the stack.
    fn store(&mut self, bytes: u8, at: i16, from: u8) {
        self.push(if bytes == 8 { 0x7b } else { 0x63 }, FRAME, from, at, 0);
    }

    /// Copies `bytes` bytes at `from + offset` to the stack at `at`.
    fn read(&mut self, at: i16, bytes: i32, from: u8, offset: i32) {
        self.copy(3, from);
        self.add(3, offset);
        self.copy(1, FRAME);
        self.add(1, at.into());
        self.set(2, bytes);
        self.call(PROBE_READ_KERNEL);
    }

    fn call(&mut self, helper: i32) {
        self.push(0x85, 0, 0, 0, helper);
    }

    fn end_if_zero(&mut self, register: u8) {
        self.jumps.push(self.instructions.len());
        self.push(0x15, register, 0, 0, 0);
    }

    fn end_unless(&mut self, register: u8, number: i32) {
        self.jumps.push(self.instructions.len());
        self.push(0x55, register, 0, 0, number);
    }

    fn end_unless_same(&mut self, register: u8, other: u8) {
        self.jumps.push(self.instructions.len());
        self.push(0x5d, register, other, 0, 0);
    }

    fn end(mut self) -> Vec<u64> {
        for at in std::mem::take(&mut self.jumps) {
            let distance = (self.instructions.len() - at - 1) as u64;
            self.instructions[at] |= distance << 16;
        }
        self.set(0, 0);
        self.push(0x95, 0, 0, 0, 0);
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_kernels_encoding() {
        let mut code = Code::default();
        code.copy(6, 1);
        code.load(8, 7, 6, 24).unwrap();
        code.end_if_zero(7);
        code.store(4, -20, 1);
        let wanted = [0x16bf, 0x18_6779, 0x1_0715, 0xffec_1a63, 0xb7, 0x95];
        assert_eq!(code.end(), wanted);
        assert!(Code::default().load(8, 1, 2, 1 << 20).is_err());
    }
}
