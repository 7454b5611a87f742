#!/bin/sh
# Packages the published crates as for a registry, and builds each crate from its package. Uploads
# nothing.
#
#   scripts/package.sh [argument of `cargo publish`]…      such as --allow-dirty
set -eu
cd "$(dirname "$0")/.."
# Removes the unpacked crates and builds of earlier runs. Otherwise cargo would use them for the
# same version, although the packages have changed since. Directories `src/-*` (registries without a
# host name) come only from such runs.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/terrace* target/packed
cargo publish --workspace --dry-run --target-dir target/packed "$@"
