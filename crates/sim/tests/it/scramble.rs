//! Tests the wrapper that scrambles the bytes of files: they must be readable through the wrapper
//! and garbage without it.
use std::sync::Arc;
use terrace_sim::{CrashFs, Rules, ScrambleFs};
use terrace_storage::backends::files::fs::FileSystem;

#[test]
fn reads_return_what_was_written_at_every_offset_and_the_inner_file_is_garbage() {
    let inner = CrashFs::new(Rules::Ext4);
    let fs = ScrambleFs::new(Arc::new(inner.clone()));
    fs.make_directory().unwrap();
    let mut file = fs.create("a").unwrap();
    let zeros = [0; 100];
    // The appends begin and end at various offsets within a mask word.
    let pieces = [1, 7, 8, 9, 30, 45];
    assert_eq!(pieces.iter().sum::<usize>(), zeros.len());
    for piece in pieces {
        file.append(&zeros[..piece]).unwrap();
    }
    let reader = fs.open("a").unwrap();
    for from in 0..zeros.len() {
        let mut buf = vec![9; zeros.len() - from];
        reader.read_exact_at(&mut buf, from as u64).unwrap();
        assert_eq!(buf, zeros[from..]);
    }
    let outside = inner.state_after(inner.steps()).read("a").unwrap();
    assert!(outside.iter().filter(|byte| **byte == 0).count() < 5, "{outside:?}");
    assert_ne!(outside[..8], outside[8..16], "the mask depends on the offset");
}
