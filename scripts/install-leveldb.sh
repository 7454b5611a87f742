#!/bin/sh
# Builds LevelDB's C++ library from bindings/cpp and from the C library that `cargo build --release
# -p terrace-capi` has built, and installs it under LevelDB's names.
#
#   scripts/install-leveldb.sh PREFIX   include/leveldb/…, lib/libleveldb.{a,so…}, pkg-config and CMake packages
#
# A program that is linked to LevelDB 1.23 and finds this library first runs with Terrace. For
# packages: DESTDIR, if set, is prepended to the paths to which files are written.
set -eu
cd "$(dirname "$0")/.."
prefix=${1:?usage: scripts/install-leveldb.sh PREFIX}
built=${CARGO_TARGET_DIR:-target}/release
version=1.23.0 # of LevelDB, whose interface this is
root=${DESTDIR:-}$prefix
lib=$root/lib

[ -e "$built/libterrace_capi.a" ] || { echo "install-leveldb: $built/libterrace_capi.a is not there; make cpp builds it" >&2; exit 1; }
mkdir -p "$lib/pkgconfig" "$lib/cmake/leveldb" "$root/include"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT

for source in bindings/cpp/src/*.cc; do
    "${CXX:-c++}" -std=c++17 -O2 -fPIC -Wall -Wextra -Wpedantic -Werror -Ibindings/cpp/include -Icrates/capi/include \
        -c "$source" -o "$objects/$(basename "$source" .cc).o"
done
"${CXX:-c++}" -shared -Wl,-soname,libleveldb.so.1d -Wl,--version-script=bindings/cpp/exports.map -Wl,-z,defs -Wl,--gc-sections \
    "$objects"/*.o -Wl,--whole-archive "$built/libterrace_capi.a" -Wl,--no-whole-archive -lpthread -ldl -lm \
    -o "$lib/libleveldb.so.$version"
ln -sf "libleveldb.so.$version" "$lib/libleveldb.so.1d" # Debian's soname
ln -sf "libleveldb.so.$version" "$lib/libleveldb.so.1"  # the soname of LevelDB's own build
ln -sf libleveldb.so.1d "$lib/libleveldb.so"

# Without the LLVM bitcode of Rust's standard library, about which an older LLVM plugin of `ar` complains.
objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$built/libterrace_capi.a" "$lib/libleveldb.a"
ar rs "$lib/libleveldb.a" "$objects"/*.o
rm -f "$lib/libmemenv.a"
ar rc "$lib/libmemenv.a" # empty, for programs that are linked with -lmemenv: NewMemEnv is in libleveldb
strip --strip-debug "$lib/libleveldb.so.$version"

cp -R bindings/cpp/include/. "$root/include"
install -m 644 crates/capi/include/leveldb/c.h "$root/include/leveldb/c.h"
install -D -m 644 crates/capi/include/terrace/c.h "$root/include/terrace/c.h"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" bindings/cpp/leveldb.pc.in >"$lib/pkgconfig/leveldb.pc"
sed "s|@VERSION@|$version|" bindings/cpp/leveldbConfigVersion.cmake.in >"$lib/cmake/leveldb/leveldbConfigVersion.cmake"
install -m 644 bindings/cpp/leveldbConfig.cmake "$lib/cmake/leveldb/leveldbConfig.cmake"
echo "LevelDB's interface on Terrace is below $root"
