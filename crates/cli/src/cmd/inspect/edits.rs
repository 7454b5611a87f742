//! Formats the version edits of a manifest as text and as JSON.
use super::{internal, user};
use crate::{json::text, table::size};
use serde_json::{Value, json};
use terrace_format::{AddedTable, Edit, FileName, LEVELS, Referred, Within};

/// Returns one line that describes an edit: the numbers that it sets (such as the log number), and
/// how many SSTables it adds and deletes per level.
pub fn summary(edit: &Edit) -> String {
    let mut parts = head(edit);
    for level in 0..LEVELS {
        let gone = edit.deleted.iter().filter(|(at, _)| *at == level).count();
        let come: Vec<u64> = edit.added.iter().filter(|(at, _)| *at == level).map(|(_, table)| table.bytes).collect();
        if gone > 0 {
            parts.push(format!("L{level} -{gone}"));
        }
        if !come.is_empty() {
            parts.push(format!("L{level} +{} ({})", come.len(), size(come.iter().sum())));
        }
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// Returns several lines that describe an edit: a line with the numbers that it sets, then a line
/// for each SSTable and each compaction pointer.
pub fn lines(edit: &Edit) -> Vec<String> {
    let mut lines = match head(edit) {
        head if head.is_empty() => Vec::new(),
        head => vec![head.join(", ")],
    };
    lines
        .extend(edit.compact_pointers.iter().map(|(level, key)| format!("L{level} compacted up to {}", internal(key))));
    lines.extend(edit.deleted.iter().map(|(level, id)| format!("L{level} - {id}")));
    lines.extend(edit.added.iter().map(|(level, table)| {
        let (smallest, largest) = (internal(&table.smallest), internal(&table.largest));
        let refs: Vec<_> = table.refs.iter().map(|(to, bytes)| format!("{bytes} B in {}", referred(*to))).collect();
        let refs = if refs.is_empty() { String::new() } else { format!(", refers to {}", refs.join(", ")) };
        let run = if table.run > 0 { format!(", run {}", table.run) } else { String::new() };
        format!("L{level} + {}, {} B, {smallest} … {largest}{run}{refs}", place(table), table.bytes)
    }));
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    lines
}

/// Describes the location of an SSTable: in its own file, or in a bundle (one file with several
/// SSTables).
fn place(table: &AddedTable) -> String {
    match table.within {
        None => FileName::Table(table.id).to_string(),
        Some(Within { bundle, offset }) => format!("{} at {offset} of {}", table.id, FileName::Bundle(bundle)),
    }
}

/// Returns the file name of a value-log segment that an SSTable has pointers into.
pub fn referred(object: Referred) -> FileName {
    match object {
        Referred::Log(id) => FileName::ValueLog(id),
        Referred::Values(id) => FileName::Values(id),
    }
}

/// Describes the parts of an edit other than its SSTables.
fn head(edit: &Edit) -> Vec<String> {
    let requires = (!edit.requires.is_empty()).then(|| format!("requires {}", edit.requires.join(", ")));
    let order = edit.comparator.as_ref().map(|name| format!("keys ordered by {name}"));
    let numbers = [
        ("log", edit.log_number),
        ("previous log", edit.prev_log_number),
        ("next file", edit.next_file_number),
        ("last sequence", edit.last_sequence.map(|sequence| sequence.0)),
    ];
    let numbers = numbers.iter().filter_map(|(name, number)| Some(format!("{name} {}", (*number)?)));
    requires.into_iter().chain(order).chain(numbers).collect()
}

/// Returns the bundle of an SSTable and its location in the bundle, or null if the SSTable has its
/// own file.
pub fn within_json(within: Option<Within>) -> Value {
    within.map_or(Value::Null, |Within { bundle, offset }| json!({ "bundle": bundle.0, "offset": offset }))
}

/// Returns the JSON form of a whole edit.
pub fn json(edit: &Edit) -> Value {
    let table = |(level, table): &(usize, AddedTable)| {
        json!({ "level": level, "number": table.id.0, "bytes": table.bytes, "within": within_json(table.within),
            "run": table.run, "smallest": text(user(&table.smallest)), "largest": text(user(&table.largest)),
            "refs": table.refs.iter().map(|(to, bytes)| json!({ "file": referred(*to).to_string(), "bytes": bytes }))
                .collect::<Value>() })
    };
    json!({
        "requires": edit.requires,
        "comparator": edit.comparator,
        "log_number": edit.log_number,
        "prev_log_number": edit.prev_log_number,
        "next_file_number": edit.next_file_number,
        "last_sequence": edit.last_sequence.map(|sequence| sequence.0),
        "compact_pointers": edit.compact_pointers.iter()
            .map(|(level, key)| json!({ "level": level, "key": text(user(key)) })).collect::<Value>(),
        "deleted": edit.deleted.iter().map(|(level, id)| json!({ "level": level, "number": id.0 })).collect::<Value>(),
        "added": edit.added.iter().map(table).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::{SeqNo, TableId};

    #[test]
    fn an_edit_in_a_line() {
        let table = AddedTable {
            id: TableId(7),
            bytes: 100,
            within: None,
            run: 0,
            smallest: b"a".to_vec(),
            largest: b"b".to_vec(),
            refs: Vec::new(),
        };
        let edit = Edit {
            log_number: Some(3),
            last_sequence: Some(SeqNo(9)),
            deleted: vec![(0, TableId(5)), (0, TableId(6)), (1, TableId(4))],
            added: vec![(1, table)],
            ..Edit::default()
        };
        assert_eq!(summary(&edit), "log 3, last sequence 9, L0 -2, L1 -1, L1 +1 (100 B)");
        assert_eq!(lines(&edit).len(), 5);
        assert_eq!(summary(&Edit::default()), "nothing");
    }
}
