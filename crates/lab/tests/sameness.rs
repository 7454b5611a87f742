//! The same seed gives the same operations, for every engine and in every version.
use std::{path::Path, sync::Mutex};
use terrace_lab::{
    cell::CellSpec,
    engines::fake::Fake,
    target::{Build, Change, Engine, Own, Result, Settings, Target},
    workload::{self, Job, rng::mix, store::Store},
};

/// Answers as the fake does and sums up what it was asked, in order.
struct Listener;

static HEARD: Mutex<u64> = Mutex::new(0);

fn hear(kind: u64, parts: [&[u8]; 2]) {
    let mut heard = HEARD.lock().expect("one test");
    *heard = mix(*heard ^ kind);
    for part in parts {
        *heard = part.iter().fold(mix(*heard ^ part.len() as u64), |sum, byte| mix(sum ^ u64::from(*byte)));
    }
}

impl Engine for Listener {
    fn name(&self) -> String {
        "listener".into()
    }

    fn build(&self) -> std::result::Result<Build, String> {
        Ok(Build::default())
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        Vec::new()
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        Ok(Box::new(Heard(Fake::default().open(dir, settings)?)))
    }
}

struct Heard(Box<dyn Target>);

impl Target for Heard {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        for change in changes {
            match change {
                Change::Put(key, value) => hear(1 + u64::from(sync), [key, value]),
                Change::Delete(key) => hear(3, [key, b""]),
            }
        }
        self.0.write(changes, sync)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        hear(4, [key, b""]);
        self.0.get(key, value)
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        hear(5 + u64::from(reverse), [from.unwrap_or_default(), b""]);
        self.0.scan(from, reverse, visit)
    }

    fn compact(&self) -> Result<()> {
        self.0.compact()
    }

    fn own(&self) -> Own {
        self.0.own()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

/// The sum of all that a cell's workloads ask.
fn heard(seed: u64, workloads: &[&str]) -> Vec<u64> {
    let dir = tempfile::tempdir().expect("a directory for the store");
    let workloads: Vec<String> = workloads.iter().map(|name| name.to_string()).collect();
    let spec = CellSpec { num: 2000, seed, dir: dir.path().into(), workloads, ..CellSpec::default() };
    let mut store = Store::create(&Listener, &spec).expect("a store");
    let mut sums = Vec::new();
    for (index, name) in spec.workloads.iter().enumerate() {
        for stage in workload::stages(name).expect("it is listed") {
            *HEARD.lock().expect("one test") = 0;
            let job = Job::new(&spec, &stage.name(), index);
            stage.prepare(&mut store, &job).expect("it can be prepared");
            stage.run(&mut store, &job, &mut |_| ()).expect("it runs");
            sums.push(*HEARD.lock().expect("one test"));
        }
    }
    sums
}

#[test]
fn operations_are_frozen() {
    let workloads = [
        "fillseq",
        "fillrandom",
        "overwrite",
        "fillbatch",
        "readrandom",
        "readmissing",
        "readhot",
        "seekrandom",
        "deleterandom",
        "write-delete-write:30",
        "ycsb-load",
        "ycsb-a",
        "ycsb-d",
        "ycsb-e",
        "ycsb-f",
        "ycsb-write:80",
        "ycsb-write-uniform:80",
        "forestdb-load",
        "forestdb-update:16",
        "forestdb-read",
        "mixgraph-load",
        "mixgraph",
        "chainstate-load",
        "chainstate",
    ];
    let sums = heard(1, &workloads);
    assert_eq!(sums, heard(1, &workloads));
    let other = heard(2, &workloads);
    for (name, (sum, other)) in workloads.iter().zip(sums.iter().zip(&other)) {
        assert_ne!(sum, other, "{name} does not depend on the seed");
    }
    // one sum for each stage; fillbatch asks what fillseq asks
    let frozen: [u64; 26] = [
        12996551020806265073,
        14604687796308256605,
        11795907030924892014,
        12996551020806265073,
        1834497033394104668,
        8305281860467668964,
        14846135349452184825,
        3756892432620755947,
        9855543859183043507,
        11754852756638254883,
        1733580542596622268,
        6899957849913321207,
        9476962742095952489,
        4033794766719304431,
        9750279106032639148,
        3778035974912702346,
        8850508517196442920,
        11797584024448086241,
        9644265455717515687,
        12336199820576237845,
        15304082240965947607,
        13334158367667888827,
        17420778733760717755,
        3850991744805600962,
        8379615131341010920,
        785554269758647679,
    ];
    assert_eq!(sums, frozen);
}
