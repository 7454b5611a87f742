#!/bin/sh
# Compiles hello.c as a user of the C library would: against the library below PREFIX, once shared
# and once static. Then runs both programs.
#
#   demo/c.sh PREFIX
set -eu
prefix=$(cd "${1:?usage: demo/c.sh PREFIX}" && pwd)
cd "$(dirname "$0")"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cc hello.c -o "$place/shared" $(pkg-config --cflags --libs terrace) "-Wl,-rpath,$prefix/lib"
"$place/shared" "$place/store"
cc hello.c -o "$place/static" $(pkg-config --cflags terrace) "$prefix/lib/libterrace.a" -lpthread -ldl -lm
"$place/static" "$place/store"
echo "demo/hello.c, written for LevelDB, runs with libterrace"
