//! What a store is made of, for people and as JSON.
use serde_json::{Value, json};
use terrace::Shape;

/// In words.
pub fn text(Shape { storage, tables, values }: Shape) -> String {
    format!("{}, {} tables, values in {}", storage.name(), tables.name(), values.name())
}

/// By the names of the marker's fields.
pub fn json(Shape { storage, tables, values }: Shape) -> Value {
    json!({ "storage": storage.name(), "table_format": tables.name(), "values": values.name() })
}
