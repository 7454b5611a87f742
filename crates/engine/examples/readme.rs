//! The example program of README.md. `cargo xtask tidy` checks that it equals the text in
//! README.md. To run it: cargo run -p terrace --example readme
use terrace::{Db, Options, ReadOptions, WriteBatch, WriteOptions};

fn main() -> terrace::Result<()> {
    let path = std::env::temp_dir().join("terrace-readme");
    let db = Db::open(&path, Options::default())?;

    db.put("city/oslo", "709 000")?; // survives the end of this process
    db.put_with("city/bergen", "291 000", WriteOptions::synced())?; // and a power cut, with all before it

    let before = db.snapshot();
    let mut batch = WriteBatch::new(); // all of it or nothing
    batch.put("city/tromsø", "78 000");
    batch.delete("city/oslo");
    db.write(batch, WriteOptions::synced())?;
    assert_eq!(db.get("city/oslo")?, None);

    for pair in db.scan(ReadOptions::new().snapshot(&before).prefix("city/")) {
        let (city, people) = pair?; // Oslo is still here: the snapshot is older than the batch
        println!("{}: {}", String::from_utf8_lossy(&city), String::from_utf8_lossy(&people));
    }
    drop(before);
    db.close()
}
