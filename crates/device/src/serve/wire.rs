//! Decodes the dozen FUSE requests that a directory of a few files receives, and encodes their
//! replies. The module does no I/O. Numbers and layouts are those of the kernel's
//! `include/uapi/linux/fuse.h`, version 7.31, in native byte order. The passthrough flags are from
//! later versions (7.36, 7.40), and older kernels ignore them.
//!
//! ```text
//! request                                   reply
//!  0  4  total length                        0  4  total length
//!  4  4  opcode                              4  4  0, or a negative error number
//!  8  8  request number                      8  8  request number
//! 16  8  node                               16  n  result
//! 24 16  caller, lengths of extensions
//! 40  n  arguments
//! ```

/// Size of a request's header in bytes.
const REQUEST_HEAD: usize = 40;
/// Size of a reply's header in bytes.
pub const REPLY_HEAD: usize = 16;
/// Maximum size of a read or write in bytes. It is the largest that the kernel allows without a
/// privileged setting.
pub const DATA_MAX: usize = 1 << 20;
/// Size of a buffer that fits any request. A write has 80 bytes of headers, and file names are
/// short.
pub const REQUEST_MAX: usize = DATA_MAX + 4096;

/// Version of the FUSE protocol: major, minor.
const VERSION: (u32, u32) = (7, 31);
/// Flags in the reply to INIT: parallel reads, parallel direct I/O, and a valid field `max_pages`.
const INIT_FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// More flags in the reply to INIT: passthrough to a backing file at a stacking depth of one.
const INIT_MORE: u32 = 1 << 30;
const INIT_PASS_ON: u32 = 1 << 5;
/// Maximum number of background requests that the kernel may have pending.
const BACKGROUND_MAX: u16 = 64;

/// Flags of an opened file: bypass the page cache, and send no flush when the file is closed.
const OPEN_DIRECT: u32 = 1 | 1 << 5;
/// Flags of an opened file: reads and writes use the given backing file, and no flush is sent when
/// the file is closed.
const OPEN_PASS_ON: u32 = 1 << 7 | 1 << 5;
/// Flags of `fallocate`.
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// A request.
#[derive(Debug, PartialEq)]
pub struct Request<'a> {
    /// Number of the request, which the reply repeats.
    pub unique: u64,
    /// The file that the request concerns.
    pub node: u64,
    pub op: Op<'a>,
}

/// The operation.
#[derive(Debug, PartialEq)]
pub enum Op<'a> {
    Init {
        major: u32,
        readahead: u32,
    },
    Lookup(&'a [u8]),
    /// Reads or sets attributes. The reply to both has the file's attributes.
    Attributes,
    Open,
    Read {
        /// The handle from [`Reply::open`].
        handle: u64,
        offset: u64,
        len: u32,
    },
    Write {
        offset: u64,
        bytes: &'a [u8],
    },
    Flush,
    Discard {
        offset: u64,
        len: u64,
    },
    Zero {
        offset: u64,
        len: u64,
    },
    Statistics,
    List {
        offset: u64,
        len: u32,
    },
    /// Closes a file.
    Release {
        handle: u64,
    },
    /// Forgets a file. Has no reply.
    Forget,
    /// An operation that is not supported.
    Other(u32),
}

impl<'a> Request<'a> {
    /// Decodes a request; `None` if malformed.
    pub fn read(bytes: &'a [u8]) -> Option<Request<'a>> {
        let length = u32_at(bytes, 0)? as usize;
        let arguments = bytes.get(REQUEST_HEAD..length)?;
        let op = match u32_at(bytes, 4)? {
            1 => Op::Lookup(arguments.split(|byte| *byte == 0).next()?),
            2 | 36 | 42 => Op::Forget,
            3 | 4 => Op::Attributes,
            14 | 27 => Op::Open,
            15 => {
                let (handle, offset) = (u64_at(arguments, 0)?, u64_at(arguments, 8)?);
                Op::Read { handle, offset, len: u32_at(arguments, 16)? }
            }
            16 => {
                let len = u32_at(arguments, 16)? as usize;
                Op::Write { offset: u64_at(arguments, 8)?, bytes: arguments.get(40..40usize.checked_add(len)?)? }
            }
            17 => Op::Statistics,
            18 | 29 => Op::Release { handle: u64_at(arguments, 0)? },
            20 => Op::Flush,
            26 => Op::Init { major: u32_at(arguments, 0)?, readahead: u32_at(arguments, 8)? },
            28 => Op::List { offset: u64_at(arguments, 8)?, len: u32_at(arguments, 16)? },
            43 => {
                let (offset, len) = (u64_at(arguments, 8)?, u64_at(arguments, 16)?);
                match u32_at(arguments, 24)? {
                    mode if mode & PUNCH_HOLE != 0 => Op::Discard { offset, len },
                    mode if mode & ZERO_RANGE != 0 => Op::Zero { offset, len },
                    _ => Op::Other(43),
                }
            }
            other => Op::Other(other),
        };
        Some(Request { unique: u64_at(bytes, 8)?, node: u64_at(bytes, 16)?, op })
    }
}

/// A file's attributes as in `stat`.
#[derive(Clone, Copy)]
pub struct Attributes {
    pub node: u64,
    pub bytes: u64,
    /// Type and permissions.
    pub mode: u32,
}

/// A reply, written as consecutive fields in native byte order.
#[derive(Default)]
pub struct Reply(Vec<u8>);

impl Reply {
    /// Encodes the reply that accepts the kernel's INIT request. With `passes_on`, the server may
    /// [open](Reply::open) files with a backing file.
    pub fn init(readahead: u32, passes_on: bool) -> Vec<u8> {
        let mut reply = Reply::default();
        let [more, pass_on, depth] = if passes_on { [INIT_MORE, INIT_PASS_ON, 1] } else { [0; 3] };
        reply.u32s(&[VERSION.0, VERSION.1, readahead, INIT_FLAGS | more]);
        reply.u16s(&[BACKGROUND_MAX, BACKGROUND_MAX / 4 * 3]);
        reply.u32s(&[DATA_MAX as u32, 1]);
        reply.u16s(&[(DATA_MAX / 4096) as u16, 0]);
        reply.u32s(&[pass_on, depth]);
        reply.u32s(&[0; 6]);
        reply.0
    }

    /// Encodes a directory entry for this file. The kernel may cache the entry forever.
    pub fn entry(file: Attributes) -> Vec<u8> {
        let mut reply = Reply::default();
        reply.u64s(&[file.node, 0, u64::from(u32::MAX), u64::from(u32::MAX)]);
        reply.u32s(&[0, 0]);
        reply.file(file);
        reply.0
    }

    /// Encodes a file's attributes. The kernel may cache them forever.
    pub fn attributes(file: Attributes) -> Vec<u8> {
        let mut reply = Reply::default();
        reply.u64s(&[u64::from(u32::MAX)]);
        reply.u32s(&[0, 0]);
        reply.file(file);
        reply.0
    }

    /// Encodes the reply to an open. The kernel sends `handle` in later requests for this file. If
    /// `behind` is given, the kernel reads and writes the backing file that was registered with
    /// this id.
    pub fn open(handle: u64, behind: Option<i32>) -> Vec<u8> {
        let mut reply = Reply::default();
        reply.u64s(&[handle]);
        reply.u32s(&behind.map_or([OPEN_DIRECT, 0], |file| [OPEN_PASS_ON, file.cast_unsigned()]));
        reply.0
    }

    /// Encodes the reply to a write: the count of bytes written.
    pub fn written(bytes: u32) -> Vec<u8> {
        let mut reply = Reply::default();
        reply.u32s(&[bytes, 0]);
        reply.0
    }

    /// Encodes the size of a file system: `bytes` bytes in blocks of `block`. The loop device
    /// derives its discard granularity from the block size.
    pub fn statistics(bytes: u64, block: u32) -> Vec<u8> {
        let mut reply = Reply::default();
        reply.u64s(&[bytes / u64::from(block), 0, 0, 3, 0]);
        reply.u32s(&[block, 255, block, 0]);
        reply.u32s(&[0; 6]);
        reply.0
    }

    /// Encodes directory entries from index `from` on, as many as fit `len` bytes.
    pub fn list(names: &[(u64, &str)], from: u64, len: u32) -> Vec<u8> {
        let mut reply = Reply::default();
        for (at, (node, name)) in names.iter().enumerate().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if reply.0.len() + (24 + name.len()).next_multiple_of(8) > len as usize {
                break;
            }
            reply.u64s(&[*node, at as u64 + 1]);
            reply.u32s(&[name.len() as u32, 0]);
            reply.0.extend_from_slice(name.as_bytes());
            reply.0.resize(reply.0.len().next_multiple_of(8), 0);
        }
        reply.0
    }

    fn file(&mut self, file: Attributes) {
        self.u64s(&[file.node, file.bytes, file.bytes / 512, 0, 0, 0]);
        self.u32s(&[0, 0, 0, file.mode, 1, 0, 0, 0, 4096, 0]);
    }

    fn u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_ne_bytes()));
    }

    fn u32s(&mut self, values: &[u32]) {
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_ne_bytes()));
    }

    fn u16s(&mut self, values: &[u16]) {
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_ne_bytes()));
    }
}

/// Writes the header of a reply whose result is already in `reply`. `error` is an error number, or
/// 0 for success.
pub fn head(reply: &mut [u8], unique: u64, error: i32) {
    let length = reply.len() as u32;
    reply[..4].copy_from_slice(&length.to_ne_bytes());
    reply[4..8].copy_from_slice(&(-error).to_ne_bytes());
    reply[8..REPLY_HEAD].copy_from_slice(&unique.to_ne_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let length = (REQUEST_HEAD + arguments.len()) as u32;
        let mut bytes = [length.to_ne_bytes(), opcode.to_ne_bytes()].concat();
        bytes.extend([7u64.to_ne_bytes(), 2u64.to_ne_bytes(), [0; 8], [0; 8]].concat());
        bytes.extend(arguments);
        bytes
    }

    #[test]
    fn a_write_is_decoded_and_a_truncated_one_rejected() {
        let mut arguments = [0u64.to_ne_bytes(), 8192u64.to_ne_bytes()].concat();
        arguments.extend([4u32.to_ne_bytes(), [0; 4]].concat());
        arguments.extend([0; 16]);
        let bytes = request(16, &[&arguments[..], b"data"].concat());
        let op = Op::Write { offset: 8192, bytes: b"data" };
        assert_eq!(Request::read(&bytes), Some(Request { unique: 7, node: 2, op }));
        assert_eq!(Request::read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Request::read(&request(16, &[&arguments[..], b"dat"].concat())), None);
        for end in 0..REQUEST_HEAD {
            assert_eq!(Request::read(&bytes[..end]), None);
        }
    }

    #[test]
    fn holes_are_discards_and_zeroed_ranges_zeros() {
        let allocate = |mode: u32| {
            let mut arguments = [0u64.to_ne_bytes(), 4096u64.to_ne_bytes(), 12288u64.to_ne_bytes()].concat();
            arguments.extend([mode.to_ne_bytes(), [0; 4]].concat());
            request(43, &arguments)
        };
        let op = |mode| Request::read(&allocate(mode)).map(|request| format!("{:?}", request.op)).unwrap();
        assert_eq!(op(3), "Discard { offset: 4096, len: 12288 }");
        assert_eq!(op(0x11), "Zero { offset: 4096, len: 12288 }");
        assert_eq!(op(0), "Other(43)");
    }

    #[test]
    fn replies_have_the_kernels_sizes() {
        let file = Attributes { node: 2, bytes: 4096, mode: 0o100600 };
        let greeting = |passes_on| Reply::init(0, passes_on);
        let at = |reply: &[u8], at| u32_at(reply, at).unwrap();
        assert_eq!(greeting(true).len(), 64);
        assert_eq!([at(&greeting(true), 12) >> 30, at(&greeting(true), 32), at(&greeting(true), 36)], [1, 1 << 5, 1]);
        assert_eq!([at(&greeting(false), 12) >> 30, at(&greeting(false), 32), at(&greeting(false), 36)], [0; 3]);
        assert_eq!([at(&Reply::open(1, Some(7)), 8), at(&Reply::open(1, Some(7)), 12)], [0xa0, 7]);
        assert_eq!(Reply::entry(file).len(), 128);
        assert_eq!(Reply::attributes(file).len(), 104);
        assert_eq!(Reply::open(1, None).len(), 16);
        assert_eq!(Reply::written(1).len(), 8);
        assert_eq!(Reply::statistics(1 << 20, 4096).len(), 80);
        let names = [(2, "disk"), (3, "stats")];
        assert_eq!(Reply::list(&names, 0, 64).len(), 64);
        assert_eq!(Reply::list(&names, 0, 63).len(), 32);
        assert_eq!(Reply::list(&names, 2, 64).len(), 0);
        let mut reply = [0; REPLY_HEAD];
        head(&mut reply, 9, 5);
        assert_eq!((u32_at(&reply, 0), u32_at(&reply, 4), u64_at(&reply, 8)), (Some(16), Some(-5i32 as u32), Some(9)));
    }
}
