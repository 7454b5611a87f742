#!/bin/sh
# Runs test suites of LevelDB's clients with LevelDB and with Terrace, and prints how many tests pass with each.
#
#   scripts/foreign.sh PREFIX [leveldb] [plyvel] [classic-level]     PREFIX has scripts/install-leveldb.sh's files
#
# leveldb        tests of LevelDB 1.22 that use only its interface (from the crate leveldb-sys). Needs cargo.
# plyvel         the Python package plyvel 1.5.1 and its tests. Needs python3 with its headers. As root, one test fails with both:
#                it expects that permissions apply.
# classic-level  the npm package classic-level 3.0.0 with the tests of abstract-level. LevelDB is the package's own copy. Needs
#                npm, and Node's headers.
#
# Everything is fetched and built below PREFIX/foreign; nothing is installed. Ends with 1 if Terrace passes fewer tests.
set -eu
prefix=$(cd "${1:?usage: scripts/foreign.sh PREFIX [CLIENT]...}" && pwd)
shift
cd "$(dirname "$0")"
. ./find-leveldb.sh
find_leveldb "$prefix/debian"
work=$prefix/foreign
mkdir -p "$work"
worse=0

# row CLIENT THEIRS OURS
row() {
    printf '%-24s LevelDB %4s passed   Terrace %4s passed\n' "$1" "$2" "$3"
    [ "${3:-0}" -gt 0 ] && [ "$3" -ge "${2:-0}" ] || worse=1
}

# leveldb_tests HEADERS LIBRARIES: prints how many tests pass.
leveldb_tests() {
    passed=0
    for name in issues/issue178_test issues/issue200_test issues/issue320_test util/status_test util/bloom_test util/cache_test util/env_test; do
        program=$work/leveldb/$(basename $name)
        "${CXX:-c++}" -w -std=c++17 -DLEVELDB_PLATFORM_POSIX=1 -I"$1" -I"$work/leveldb/config" -I"$source" \
            "$source/$name.cc" "$source"/util/testharness.cc "$source"/util/testutil.cc "$source"/util/coding.cc "$source"/util/logging.cc \
            -L"$2" -lleveldb -pthread -o "$program"
        rm -rf "$work/leveldb/place"
        mkdir "$work/leveldb/place"
        TEST_TMPDIR=$work/leveldb/place LD_LIBRARY_PATH=$2 timeout 300 "$program" >"$program.txt" 2>&1 || continue
        passed=$((passed + $(sed -n 's/^==== PASSED \(.*\) tests$/\1/p' "$program.txt")))
    done
    echo $passed
}

run_leveldb() {
    mkdir -p "$work/leveldb/config/port" "$work/leveldb/crate"
    : >"$work/leveldb/crate/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\nleveldb-sys = "=2.0.9"\n' \
        >"$work/leveldb/crate/Cargo.toml"
    (cd "$work/leveldb/crate" && cargo vendor --quiet vendor >/dev/null)
    source=$work/leveldb/crate/vendor/leveldb-sys/deps/leveldb-1.22
    printf '#define %s\n' 'HAVE_FDATASYNC 1' 'HAVE_FULLFSYNC 0' 'HAVE_O_CLOEXEC 1' 'HAVE_CRC32C 0' 'HAVE_SNAPPY 0' 'LEVELDB_IS_BIG_ENDIAN 0' \
        >"$work/leveldb/config/port/port_config.h"
    row "leveldb 1.22" "$(leveldb_tests "$debian/include" "$theirs")" "$(leveldb_tests "$prefix/include" "$prefix/lib")"
}

# plyvel_tests LIBRARIES: prints how many tests pass.
plyvel_tests() {
    (cd "$work/plyvel/test" &&
        LD_LIBRARY_PATH=$1 "$work/plyvel/python/bin/python" -m pytest -q -p no:cacheprovider test_plyvel.py >"$work/plyvel/out.txt" 2>&1) || :
    grep -o '[0-9]* passed' "$work/plyvel/out.txt" | cut -d ' ' -f 1
}

# The extension is compiled with our headers, and runs with both libraries.
run_plyvel() {
    rm -rf "$work/plyvel"
    mkdir -p "$work/plyvel/source"
    python3 -m venv "$work/plyvel/python"
    pip="$work/plyvel/python/bin/pip --quiet --disable-pip-version-check"
    $pip install pytest==9.2.0 setuptools==80.9.0 wheel==0.45.1
    $pip download --no-deps --no-build-isolation --no-binary plyvel --dest "$work/plyvel" plyvel==1.5.1
    tar -xzf "$work"/plyvel/plyvel-*.tar.gz -C "$work/plyvel/source" --strip-components 1
    CFLAGS=-I$prefix/include CXXFLAGS=-I$prefix/include LDFLAGS=-L$prefix/lib $pip install --no-build-isolation --no-deps "$work/plyvel/source"
    install -D "$work/plyvel/source/test/test_plyvel.py" "$work/plyvel/test/test_plyvel.py" # away from the sources' package
    row "plyvel 1.5.1" "$(plyvel_tests "$theirs")" "$(plyvel_tests "$prefix/lib")"
}

# classic_level_tests: builds the package in the current directory, and prints how many tests pass.
classic_level_tests() {
    node_prefix=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
    (cd node_modules/classic-level && rm -rf prebuilds build && npx --no-install node-gyp rebuild --jobs 1 --nodedir "$node_prefix" >"$work/classic-level/build.txt" 2>&1)
    cat >suite.js <<'END'
const test = require('tape')
const { ClassicLevel } = require('classic-level')
const place = require('fs').mkdtempSync(require('path').join(__dirname, 'place-'))
let stores = 0
require('abstract-level/test')({ test, factory: options => new ClassicLevel(`${place}/${stores++}`, options) })
END
    timeout 600 node suite.js >out.txt 2>&1 || :
    grep -c '^ok ' out.txt || :
}

run_classic_level() {
    rm -rf "$work/classic-level"
    mkdir -p "$work/classic-level"
    cd "$work/classic-level"
    npm install --silent --no-save --ignore-scripts --prefix . classic-level@3.0.0 tape@5.9.0 node-gyp@11.4.2 >/dev/null
    with_leveldb=$(classic_level_tests)
    # With our library instead of the package's own copy of LevelDB.
    sed -i -e "s|\"<(module_root_dir)/deps/leveldb/leveldb.gyp:leveldb\"||" \
        -e "s|\"include_dirs\"  : \[|\"libraries\": [\"-L$prefix/lib\", \"-lleveldb\", \"-Wl,-rpath,$prefix/lib\"], \"include_dirs\": [\"$prefix/include\",|" \
        node_modules/classic-level/binding.gyp
    with_terrace=$(classic_level_tests)
    ldd node_modules/classic-level/build/Release/classic_level.node | grep -q "$prefix/lib/libleveldb" || { echo "foreign: classic-level does not use Terrace" >&2; exit 1; }
    row "classic-level 3.0.0" "$with_leveldb" "$with_terrace"
    cd "$OLDPWD"
}

[ $# -gt 0 ] || set -- leveldb plyvel classic-level
for client; do
    case $client in
        leveldb) run_leveldb ;;
        plyvel) run_plyvel ;;
        classic-level) run_classic_level ;;
        *) echo "foreign: no client $client" >&2 && exit 2 ;;
    esac
done
exit $worse
