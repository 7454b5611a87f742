//! Decodes BTF, the kernel's description of its own types. It decodes only the parts that are
//! needed to find the number of a function and the offset of a struct field.
//!
//! ```text
//! header   u16 magic 0xeb9f; u32 at 4: bytes of the header; u32 at 8 and 12: offset and bytes of
//!          the types; u32 at 16 and 20: offset and bytes of the strings
//! type     u32 name; u32 info (bits 0..16: count of members, bits 24..29: kind, bit 31: member
//!          offsets contain bit-field widths); u32 size, or the type that this one refers to
//! member   u32 name; u32 type; u32 offset in bits (with widths: the lower 24 bits)
//! ```
//! Offsets of types and strings are relative to the end of the header. Types are numbered from 1.
//! The type numbers and string offsets in the BTF of a kernel module continue those of the
//! kernel's BTF. The format is specified in Linux, `Documentation/bpf/btf.rst`.

const MAGIC: u16 = 0xeb9f;
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;

/// Kinds of types.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;

/// Maximum nesting depth of unnamed members of a struct. No kernel type has a greater depth.
const DEPTH_MAX: usize = 8;

/// The types of a kernel, or of a kernel and one of its modules.
#[derive(Clone)]
pub struct Btf {
    types: Vec<Type>,
    texts: Vec<u8>,
}

#[derive(Clone)]
struct Type {
    name: u32,
    kind: u32,
    /// For a modifier (`const`, `volatile`, `restrict`), the type that it modifies.
    refers_to: u32,
    /// Members of a struct or union.
    members: Vec<Member>,
}

#[derive(Clone)]
struct Member {
    name: u32,
    of: u32,
    bits: u32,
}

impl Btf {
    /// Decodes the kernel's BTF.
    pub fn parse(bytes: &[u8]) -> Result<Btf, String> {
        // Type number 0 is `void`.
        let none = Type { name: 0, kind: 0, refers_to: 0, members: Vec::new() };
        Btf { types: vec![none], texts: Vec::new() }.with(bytes)
    }

    /// Adds the BTF of one of the kernel's modules.
    pub fn with(mut self, bytes: &[u8]) -> Result<Btf, String> {
        if bytes.get(..2) != Some(&MAGIC.to_ne_bytes()) {
            return Err("not BTF: bad magic number".into());
        }
        let part = |offset_at: usize| -> Result<&[u8], String> {
            let from = word(bytes, 4)? as usize + word(bytes, offset_at)? as usize;
            let length = word(bytes, offset_at + 4)? as usize;
            bytes.get(from..).and_then(|rest| rest.get(..length)).ok_or_else(|| "BTF is truncated".into())
        };
        let (types, texts) = (part(8)?, part(16)?);
        let mut at = 0;
        while at < types.len() {
            let (found, next) = read_type(types, at)?;
            self.types.push(found);
            at = next;
        }
        self.texts.extend_from_slice(texts);
        Ok(self)
    }

    /// Returns the type number of a function.
    pub fn function(&self, name: &str) -> Result<u32, String> {
        self.find(FUNC, name).map(|at| at as u32).ok_or_else(|| format!("this kernel has no function {name}"))
    }

    /// Returns whether the struct is defined and not only declared.
    pub fn has_struct(&self, name: &str) -> bool {
        self.find(STRUCT, name).is_some()
    }

    /// Returns the offset of `field` in struct `name`, in bytes. Searches unnamed members as well.
    pub fn offset(&self, name: &str, field: &str) -> Result<i32, String> {
        let at = self.find(STRUCT, name).ok_or_else(|| format!("this kernel has no struct {name}"))?;
        let bits = self.bits_in(at, field, DEPTH_MAX).ok_or_else(|| format!("struct {name} has no field {field}"))?;
        i32::try_from(bits / 8).map_err(|_| format!("struct {name} is too large"))
    }

    fn find(&self, kind: u32, name: &str) -> Option<usize> {
        self.types.iter().position(|found| found.kind == kind && self.text(found.name) == name.as_bytes())
    }

    fn bits_in(&self, at: usize, field: &str, depth: usize) -> Option<u32> {
        self.types[at].members.iter().find_map(|member| match self.text(member.name) {
            b"" if depth > 0 => {
                let within = self.bits_in(self.unmodified(member.of)?, field, depth - 1)?;
                member.bits.checked_add(within)
            }
            name => (name == field.as_bytes()).then_some(member.bits),
        })
    }

    /// Follows type modifiers (`const`, `volatile`, `restrict`) from type `number` to a struct or
    /// union. Returns the type number of the struct or union.
    fn unmodified(&self, mut number: u32) -> Option<usize> {
        for _ in 0..DEPTH_MAX {
            let found = self.types.get(number as usize)?;
            match found.kind {
                VOLATILE | CONST | RESTRICT => number = found.refers_to,
                STRUCT | UNION => return Some(number as usize),
                _ => return None,
            }
        }
        None
    }

    fn text(&self, offset: u32) -> &[u8] {
        let text = self.texts.get(offset as usize..).unwrap_or_default();
        text.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// Decodes the type at offset `at`. Returns the type and the offset of the next type.
fn read_type(types: &[u8], at: usize) -> Result<(Type, usize), String> {
    let (name, info, refers_to) = (word(types, at)?, word(types, at + 4)?, word(types, at + 8)?);
    let (kind, count) = (info >> 24 & 0x1f, info as usize & 0xffff);
    let from = at + TYPE_BYTES;
    let payload = match kind {
        1 | 14 | 17 => 4, // integer, variable, declaration tag
        3 => 12,          // array
        STRUCT | UNION => MEMBER_BYTES * count,
        6 | 13 => 8 * count,       // enumeration, prototype
        15 | 19 => 12 * count,     // section, enumeration of 64 bits
        2 | 7..=12 | 16 | 18 => 0, // pointer, forward, typedef, modifiers, function, float, tag
        _ => return Err(format!("BTF has a type of unknown kind {kind}")),
    };
    let mut members = Vec::new();
    if matches!(kind, STRUCT | UNION) {
        for at in (from..from + payload).step_by(MEMBER_BYTES) {
            let place = word(types, at + 8)?;
            let bits = if info >> 31 == 1 { place & 0xff_ffff } else { place };
            members.push(Member { name: word(types, at)?, of: word(types, at + 4)?, bits });
        }
    }
    Ok((Type { name, kind, refers_to, members }, from + payload))
}

fn word(bytes: &[u8], at: usize) -> Result<u32, String> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map(|word| u32::from_ne_bytes(*word)).ok_or_else(|| "BTF is truncated".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn btf(types: &[u32], texts: &[u8]) -> Vec<u8> {
        let types = words(types);
        let head = [24, 0, types.len() as u32, types.len() as u32, texts.len() as u32];
        [&MAGIC.to_ne_bytes()[..], &[1, 0], &words(&head), &types, texts].concat()
    }

    const TEXTS: &[u8] = b"\0inode\0i_ino\0i_sb\0ask\0";

    /// Returns BTF with four types. Type 1 is a function, and type 2 is a union with one field.
    /// Type 3 is `const` of type 2. Type 4 is a struct with a field of 8 bytes and an unnamed
    /// member of type 3.
    fn sample() -> Vec<u8> {
        let function = [18, FUNC << 24, 0];
        let union = [0, UNION << 24 | 1, 8, 13, 0, 0];
        let constant = [0, CONST << 24, 2];
        let structure = [1, STRUCT << 24 | 2, 16, 7, 0, 0, 0, 3, 64];
        btf(&[&function[..], &union, &constant, &structure].concat(), TEXTS)
    }

    #[test]
    fn functions_and_fields_are_found_also_in_unnamed_members() {
        let btf = Btf::parse(&sample()).unwrap();
        assert_eq!(btf.function("ask"), Ok(1));
        assert_eq!((btf.offset("inode", "i_ino"), btf.offset("inode", "i_sb")), (Ok(0), Ok(8)));
        for error in [btf.offset("inode", "size"), btf.offset("file", "i_ino"), btf.function("other").map(|_| 0)] {
            assert!(error.unwrap_err().contains("no "));
        }
    }

    #[test]
    fn a_module_continues_the_numbers_of_the_kernel() {
        let end = TEXTS.len() as u32;
        // Type 5: a struct with an unnamed member of type 4 at byte 32.
        let module = btf(&[end, STRUCT << 24 | 1, 48, 0, 4, 256], b"ext4_inode_info\0");
        let btf = Btf::parse(&sample()).unwrap().with(&module).unwrap();
        assert_eq!(btf.offset("ext4_inode_info", "i_sb"), Ok(40));
        assert!(btf.has_struct("inode") && !btf.has_struct("ask"));
    }

    #[test]
    fn corrupt_btf_gives_an_error_and_no_panic() {
        let good = sample();
        for length in 0..good.len() {
            let _ = Btf::parse(&good[..length]).map(|btf| btf.offset("inode", "i_sb"));
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = Btf::parse(&bad).map(|btf| (btf.offset("inode", "i_sb"), btf.function("ask")));
            }
        }
        assert!(Btf::parse(&good[..good.len() / 2]).is_err());
        // A struct that contains itself.
        let endless = btf(&[1, STRUCT << 24 | 1, 8, 0, 1, 0], TEXTS);
        assert!(Btf::parse(&endless).unwrap().offset("inode", "i_sb").is_err());
    }
}
