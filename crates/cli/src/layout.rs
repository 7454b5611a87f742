//! Converts the layout of a store (its storage, table format and place of values) to text and to
//! JSON.
use serde_json::{Value, json};
use std::path::Path;
use terrace::Layout;
use terrace_storage::backends::raw::is_device;

/// Returns the layout as text.
pub fn text(Layout { medium, tables, values }: Layout) -> String {
    format!("{}, {} tables, values in {}", medium.name(), tables.name(), values.name())
}

/// Returns the layout of the store at `path` as text. A store on a device has the same format file
/// as a store in a directory, so the path decides whether the text names a device.
pub fn text_at(path: &Path, layout: Layout) -> String {
    format!("{}, {} tables, values in {}", storage(path, layout), layout.tables.name(), layout.values.name())
}

/// Returns the layout of the store at `path` as JSON. The field names are those of the format
/// file.
pub fn json_at(path: &Path, layout: Layout) -> Value {
    let mut object = json(layout);
    object["storage"] = storage(path, layout).into();
    object
}

fn storage(path: &Path, layout: Layout) -> &'static str {
    if is_device(path) { "device" } else { layout.medium.name() }
}

/// Returns the layout as JSON. The field names are those of the format file.
pub fn json(Layout { medium, tables, values }: Layout) -> Value {
    json!({ "storage": medium.name(), "table_format": tables.name(), "values": values.name() })
}
