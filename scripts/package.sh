#!/bin/sh
# Packs the crates that are published as a registry would get them, and builds each from what was packed. Uploads nothing.
#
#   scripts/package.sh [argument of `cargo publish`]…      such as --allow-dirty
set -eu
cd "$(dirname "$0")/.."
# Cargo takes a crate of this version for unpacked, and for built, if an earlier run left it, though what is packed has changed
# since. Registries without a host are such runs' own.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/terrace* target/packed
cargo publish --workspace --dry-run --target-dir target/packed "$@"
