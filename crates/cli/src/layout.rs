//! What a store is made of, for people and as JSON.
use serde_json::{Value, json};
use std::path::Path;
use terrace::Layout;
use terrace_storage::backends::raw::is_device;

/// In words.
pub fn text(Layout { medium, tables, values }: Layout) -> String {
    format!("{}, {} tables, values in {}", medium.name(), tables.name(), values.name())
}

/// In words, of the store at `path`. Its marker is that of a directory on a device too, of which it says nothing.
pub fn text_at(path: &Path, layout: Layout) -> String {
    format!("{}, {} tables, values in {}", storage(path, layout), layout.tables.name(), layout.values.name())
}

/// By the names of the marker's fields, of the store at `path`.
pub fn json_at(path: &Path, layout: Layout) -> Value {
    let mut object = json(layout);
    object["storage"] = storage(path, layout).into();
    object
}

fn storage(path: &Path, layout: Layout) -> &'static str {
    if is_device(path) { "device" } else { layout.medium.name() }
}

/// By the names of the marker's fields.
pub fn json(Layout { medium, tables, values }: Layout) -> Value {
    json!({ "storage": medium.name(), "table_format": tables.name(), "values": values.name() })
}
