#!/bin/sh
# Fetches and builds the peers of `terrace bench` (the libraries of other engines) with the fastest build for this machine.
#
#   scripts/peers.sh [leveldb] [rocksdb-maven] [rocksdb]     all three, in this order, if none is named
#
# leveldb        LevelDB 1.23, Debian's source package, with Google's crc32c (from the crate libbitcoinkernel-sys) and
#                Snappy (from the crate leveldb-sys); also LevelDB's db_bench from the same objects. Takes a minute.
#                Needs: apt-get on Debian 12 (or LEVELDB_SOURCE=directory of LevelDB 1.23), cargo, cmake, g++.
# rocksdb-maven  RocksDB 10.4.2, the shared object from the Maven jar of its Java binding. This is a portable build without the
#                CRC instruction, for use until the build of `rocksdb` is complete. Needs: mvn, unzip.
# rocksdb        RocksDB 11.8.1 from the crate librocksdb-sys, built for this processor. Takes half an hour of processor time.
#                Needs: cargo, g++, libclang (installed from Debian where it is missing, by root).
#
# The libraries are written to $TERRACE_PEERS, by default ~/.cache/terrace/peers. For each lib*.so, a file lib*.so.txt has its
# version and source, one line each. An existing library is not built again; delete it to rebuild it.
# JOBS=n sets how many compilers run at once (default: all processors).
set -eu

peers=${TERRACE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/terrace/peers}
build=$peers/build
jobs=${JOBS:-$(nproc)}
mkdir -p "$build"
peers=$(cd "$peers" && pwd) build=$peers/build

say() { echo "peers: $*" >&2; }
have() { for tool; do command -v "$tool" >/dev/null || { say "needs $tool"; return 1; }; done; }

# publish FILE NAME VERSION SOURCE: installs a library; the rename is the last step, so an existing library is always complete.
publish() {
    printf '%s\n%s\n' "$3" "$4" >"$peers/$2.txt"
    mv "$1" "$peers/$2"
    say "$peers/$2: $3, $4"
}

# package DIRECTORY DEPENDENCY...: creates an empty crate with these dependencies, to fetch or build crates of the registry.
package() {
    mkdir -p "$1"
    : >"$1/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\n' >"$1/Cargo.toml"
    (cd "$1" && shift && printf '%s\n' "$@" >>Cargo.toml)
}

# Fetches LevelDB's source from Debian into $build/leveldb/source. apt uses separate package lists; those of the machine do not
# change.
leveldb_source() {
    source=$build/leveldb/source
    if [ -n "${LEVELDB_SOURCE:-}" ]; then ln -sfn "$LEVELDB_SOURCE" "$source"; return; fi
    [ ! -d "$source" ] || return 0
    have apt-get dpkg-source || return 1
    apt=$build/leveldb/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
    # Copies the machine's apt sources, changed to source packages (deb-src).
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -f "$list" ] || continue
        sed 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" >"$apt/parts/$(basename "$list")"
    done
    mv "$apt/parts/sources.list" "$apt/parts/main.list" 2>/dev/null || :
    set -- -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts" \
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root
    apt-get "$@" update
    (cd "$build/leveldb" && apt-get "$@" source leveldb=1.23-4)
    mv "$build/leveldb/leveldb-1.23" "$source"
}

# cmake_install SOURCE NAME OPTION...: builds a static library with position-independent code, and installs it below
# $build/leveldb/prefix.
cmake_install() {
    from=$1 name=$2
    shift 2
    CXXFLAGS="-march=native -Wno-error" cmake -S "$from" -B "$build/leveldb/$name" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib "$@"
    cmake --build "$build/leveldb/$name" -j "$jobs" --target install
}

leveldb() {
    [ ! -f "$peers/libleveldb.so" ] || return 0
    have cargo cmake g++ || return 1
    mkdir -p "$build/leveldb"
    leveldb_source
    package "$build/leveldb/crates" 'leveldb-sys = "=2.0.9"' 'libbitcoinkernel-sys = "=0.4.1"'
    (cd "$build/leveldb/crates" && cargo vendor --quiet vendor >/dev/null)
    vendor=$build/leveldb/crates/vendor prefix=$build/leveldb/prefix
    cmake_install "$vendor/libbitcoinkernel-sys/bitcoin/src/crc32c" crc32c \
        -DCRC32C_BUILD_TESTS=OFF -DCRC32C_BUILD_BENCHMARKS=OFF -DCRC32C_USE_GLOG=OFF
    cmake_install "$vendor/leveldb-sys/deps/snappy-1.1.7" snappy -DSNAPPY_BUILD_TESTS=OFF
    # Sets HAVE_CRC32C and HAVE_SNAPPY explicitly. LevelDB's own detection links with the C compiler, and this fails for these
    # two C++ libraries.
    export CPATH="$prefix/include" LIBRARY_PATH="$prefix/lib"
    cmake_install "$build/leveldb/source" leveldb -DHAVE_CRC32C=1 -DHAVE_SNAPPY=1 \
        -DLEVELDB_BUILD_TESTS=OFF -DLEVELDB_BUILD_BENCHMARKS=OFF
    set -- "$prefix/lib/libcrc32c.a" "$prefix/lib/libsnappy.a" -lpthread
    g++ -shared -o "$build/leveldb/out.so" -Wl,-Bsymbolic -Wl,--no-undefined -Wl,--whole-archive \
        "$prefix/lib/libleveldb.a" -Wl,--no-whole-archive "$@"
    leveldb_bench "$@"
    publish "$build/leveldb/out.so" libleveldb.so 1.23 "Debian's source 1.23-4, built here for this processor, with Google's crc32c and Snappy 1.1.7"
}

# Builds LevelDB's db_bench from the same objects. Its helper files include headers of a test framework that is not used here,
# so the function creates empty substitutes for these headers.
leveldb_bench() {
    mkdir -p "$build/leveldb/stand-in/gmock" "$build/leveldb/stand-in/gtest"
    echo '#define MATCHER(name, text) template <class T> bool name(const T& arg)' >"$build/leveldb/stand-in/gmock/gmock.h"
    echo 'namespace testing { struct UnitTest { static UnitTest* GetInstance(); int random_seed(); }; }' \
        >"$build/leveldb/stand-in/gtest/gtest.h"
    (cd "$build/leveldb/source" && g++ -std=c++11 -O3 -DNDEBUG -march=native -DLEVELDB_PLATFORM_POSIX=1 -I. -Iinclude \
        -I"$build/leveldb/leveldb/include" -I"$build/leveldb/stand-in" -o "$peers/leveldb_db_bench" \
        benchmarks/db_bench.cc util/histogram.cc util/testutil.cc "$prefix/lib/libleveldb.a" "$@") ||
        say "LevelDB's own db_bench does not build here; the library is not concerned"
}

rocksdb_maven() {
    [ ! -f "$peers/librocksdb-maven.so" ] || return 0
    have mvn unzip || return 1
    mvn -q -B dependency:copy -Dartifact=org.rocksdb:rocksdbjni:10.4.2:jar:linux64 -DoutputDirectory="$build/maven"
    unzip -p "$build/maven/rocksdbjni-10.4.2-linux64.jar" librocksdbjni-linux64.so >"$build/maven/out.so"
    publish "$build/maven/out.so" librocksdb-maven.so 10.4.2 "Maven org.rocksdb:rocksdbjni:10.4.2:linux64, a portable build"
}

# Finds or installs libclang and the compiler's headers, with which the crate parses RocksDB's C header. Most machines do not
# have them.
libclang() {
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    for library in /usr/lib*/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib/llvm*/lib/libclang*.so* /usr/local/lib/libclang*.so*; do
        case $library in *libclang-cpp* | *'*'*) continue ;; esac
        for header in /usr/lib/clang/*/include/stddef.h /usr/lib/llvm*/lib/clang/*/include/stddef.h /usr/local/lib/clang/*/include/stddef.h; do
            [ ! -f "$header" ] || return 0
        done
    done
    if [ "$(id -u)" = 0 ] && apt-get update -q && apt-get install -q -y --no-install-recommends libclang-dev; then return 0; fi
    say "needs libclang, in Debian: apt-get install libclang-dev"
    return 1
}

rocksdb() {
    [ ! -f "$peers/librocksdb.so" ] || return 0
    have cargo g++ && libclang || return 1
    at=$build/rocksdb
    package "$at" 'librocksdb-sys = { version = "=0.19.0", default-features = false, features = ["bindgen-runtime", "lz4", "snappy", "zlib", "zstd"] }'
    say "RocksDB: about half an hour of one processor; the log is in $build/rocksdb.log"
    (cd "$at" && CARGO_TARGET_DIR=$at/target RUSTFLAGS="-C target-cpu=native" cargo build --release -j "$jobs") \
        >"$build/rocksdb.log" 2>&1 || { tail -n 20 "$build/rocksdb.log" >&2; return 1; }
    archives=$(find "$at/target/release/build" -name 'lib*.a' ! -name librocksdb.a)
    main=$(find "$at/target/release/build" -name librocksdb.a)
    # shellcheck disable=SC2086 # a list of files without spaces
    g++ -shared -o "$at/out.so" -Wl,-Bsymbolic -Wl,--whole-archive "$main" -Wl,--no-whole-archive $archives -lpthread -ldl
    publish "$at/out.so" librocksdb.so 11.8.1 "crate librocksdb-sys 0.19.0, built here for this processor"
}

# Builds each peer in its own process, so that an error ends only the build of that peer.
case ${1:-} in
    --one)
        case $2 in
            leveldb) leveldb ;;
            rocksdb-maven) rocksdb_maven ;;
            rocksdb) rocksdb ;;
            *) say "no peer '$2': leveldb, rocksdb-maven, rocksdb"; exit 2 ;;
        esac
        exit ;;
    '') set -- leveldb rocksdb-maven rocksdb ;;
esac
missing=
for peer; do
    "$0" --one "$peer" || missing="$missing $peer"
done
[ -z "$missing" ] || { say "not available:$missing"; exit 1; }
