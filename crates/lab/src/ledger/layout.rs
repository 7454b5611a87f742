//! Block layout of an ext4 file system. The ledger reads it once, with the programs `dumpe2fs` and
//! `debugfs` of e2fsprogs.
//!
//! The layout contains the fixed areas (superblocks, descriptors, bitmaps, inode tables, the
//! journal) and the blocks of the existing files. Blocks that are allocated later are visible in
//! the kernel's trace.
use std::{
    io::Write,
    ops::RangeInclusive,
    path::Path,
    process::{Command, Stdio},
};

/// Inodes, each with its kind: `journal`, `metadata`, or a kind of file.
pub type Inodes = Vec<(u64, &'static str)>;

/// The fixed areas and the known blocks of a file system.
#[derive(Debug, Default, PartialEq)]
pub struct FsLayout {
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Number of blocks in the file system.
    pub blocks: u64,
    /// Ranges of blocks with their kind. A later range overrides an earlier one.
    pub areas: Vec<(RangeInclusive<u64>, &'static str)>,
}

impl FsLayout {
    /// Reads the layout of the mounted ext4 on `node`. `files` are the inodes of the existing
    /// files, whose blocks the layout includes.
    pub fn read(node: &Path, files: Inodes) -> Result<FsLayout, String> {
        let text = run(Command::new("dumpe2fs").arg(node), "")?;
        let (mut layout, mut inodes) = parse_dump(&text).ok_or("dumpe2fs: unexpected output")?;
        inodes.extend(files);
        let commands: String = inodes.iter().map(|(inode, _)| format!("blocks <{inode}>\n")).collect();
        let text = run(Command::new("debugfs").args(["-f", "-"]).arg(node), &commands)?;
        layout.areas.extend(parse_blocks(&text, &inodes));
        Ok(layout)
    }
}

fn run(command: &mut Command, input: &str) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let why = |error: std::io::Error| format!("{name} (package e2fsprogs): {error}");
    let mut child = command
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(why)?;
    let mut pipe = child.stdin.take().expect("it is piped");
    // A separate thread writes the child's input. The child may print output before it has read all
    // of its input. With only one thread, the child would wait until this process reads, and this
    // process would wait until the child reads.
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(why)?;
    feeder.join().map_err(|_| format!("{name}: no input"))?.map_err(why)?;
    if !output.status.success() {
        return Err(format!("{name}: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses the output of dumpe2fs: the sizes, the fixed areas, and the inodes of ext4's own files.
fn parse_dump(text: &str) -> Option<(FsLayout, Inodes)> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse::<u64>().ok()
    };
    let mut layout = FsLayout { block_bytes: number("Block size")?, blocks: number("Block count")?, areas: Vec::new() };
    for line in text.lines().skip_while(|line| !line.starts_with("Group 0:")) {
        // Examples of a line: `  Block bitmap at 65 (+65), csum 0xe2813a1b`, `  Inode table at
        // 73-584 (+73)`
        for place in line.split(" at ").skip(1) {
            let end = place.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(place.len());
            let (first, last) = place[..end].split_once('-').unwrap_or((&place[..end], &place[..end]));
            layout.areas.push((first.parse().ok()?..=last.parse().ok()?, "metadata"));
        }
    }
    let own = [("Journal inode", "journal"), ("Orphan file inode", "metadata")];
    let inodes = own.into_iter().filter_map(|(name, kind)| Some((number(name)?, kind))).collect();
    (!layout.areas.is_empty()).then_some((layout, inodes))
}

/// Parses the output of debugfs, which lists the blocks of each of `inodes`. Before each result,
/// debugfs repeats the command, such as `debugfs: blocks <8>`.
fn parse_blocks(text: &str, inodes: &Inodes) -> Vec<(RangeInclusive<u64>, &'static str)> {
    let (mut areas, mut kind) = (Vec::new(), None);
    for line in text.lines() {
        if let Some((_, commands)) = line.split_once("blocks <") {
            let inode = commands.trim_end_matches('>').parse::<u64>().ok();
            kind = inodes.iter().find(|(known, _)| Some(*known) == inode).map(|(_, kind)| *kind);
        } else if let Some(kind) = kind {
            let blocks = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            areas.extend(blocks.map(|block| (block..=block, kind)));
        }
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_areas_and_own_inodes_are_found() {
        let text = "Block count:              131072\nBlock size:               4096\nJournal inode:            8\n\n\
            Group 0: (Blocks 0-32767) csum 0x968a [ITABLE_ZEROED]\n  Primary superblock at 0, Group descriptors at 1-2\n  \
            Block bitmap at 65 (+65), csum 0xe2\n  Inode table at 73-584 (+73)\n  Free blocks: 2128-32767\n";
        let (layout, inodes) = parse_dump(text).expect("understood");
        let metadata = [0..=0, 1..=2, 65..=65, 73..=584].map(|range| (range, "metadata"));
        assert_eq!(layout, FsLayout { block_bytes: 4096, blocks: 131_072, areas: metadata.to_vec() });
        assert_eq!(inodes, [(8, "journal")]);
        assert_eq!(parse_dump("nothing"), None);
    }

    #[test]
    fn blocks_are_assigned_to_the_inode_of_the_command() {
        let inodes = vec![(8, "journal"), (12, "tables")];
        let text = "debugfs: blocks <8>\n100 101\ndebugfs: blocks <12>\n7 \ndebugfs: blocks <99>\n5\n";
        let areas = [(100..=100, "journal"), (101..=101, "journal"), (7..=7, "tables")];
        assert_eq!(parse_blocks(text, &inodes), areas);
    }
}
