#!/bin/sh
# Installs the C library that `cargo build --release -p terrace-capi` has built.
#
#   scripts/install-capi.sh PREFIX     lib/libterrace.{a,so…}, lib/pkgconfig/terrace{,-static}.pc, include/terrace/…
#
# For packages: DESTDIR, if set, is prepended to the paths to which files are written. The contents
# of the files have only PREFIX.
set -eu
cd "$(dirname "$0")/.."
prefix=${1:?usage: scripts/install-capi.sh PREFIX}
built=${CARGO_TARGET_DIR:-target}/release
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
major=${version%%.*}
root=${DESTDIR:-}$prefix

[ -e "$built/libterrace_capi.so" ] || { echo "install-capi: $built/libterrace_capi.so is not there; make capi builds it" >&2; exit 1; }
for header in leveldb/c.h terrace/c.h; do
    install -D -m 644 "crates/capi/include/$header" "$root/include/terrace/$header"
done
install -D -m 755 "$built/libterrace_capi.so" "$root/lib/libterrace.so.$version"
install -m 644 "$built/libterrace_capi.a" "$root/lib/libterrace.a"
strip --strip-debug "$root/lib/libterrace.so.$version" "$root/lib/libterrace.a"
ln -sf "libterrace.so.$version" "$root/lib/libterrace.so.$major"
ln -sf "libterrace.so.$major" "$root/lib/libterrace.so"
install -d "$root/lib/pkgconfig"
for name in terrace terrace-static; do
    sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "crates/capi/$name.pc.in" >"$root/lib/pkgconfig/$name.pc"
done
echo "libterrace $version is below $root"
