//! What a store is made of, for people and as JSON.
use serde_json::{Value, json};
use std::path::Path;
use terrace::Shape;
use terrace_storage::backends::raw::is_device;

/// In words.
pub fn text(Shape { storage, tables, values }: Shape) -> String {
    format!("{}, {} tables, values in {}", storage.name(), tables.name(), values.name())
}

/// In words, of the store at `path`. Its marker is that of a directory on a device too, of which it says nothing.
pub fn text_at(path: &Path, shape: Shape) -> String {
    format!("{}, {} tables, values in {}", storage(path, shape), shape.tables.name(), shape.values.name())
}

/// By the names of the marker's fields, of the store at `path`.
pub fn json_at(path: &Path, shape: Shape) -> Value {
    let mut object = json(shape);
    object["storage"] = storage(path, shape).into();
    object
}

fn storage(path: &Path, shape: Shape) -> &'static str {
    if is_device(path) { "device" } else { shape.storage.name() }
}

/// By the names of the marker's fields.
pub fn json(Shape { storage, tables, values }: Shape) -> Value {
    json!({ "storage": storage.name(), "table_format": tables.name(), "values": values.name() })
}
