#!/bin/sh
# Tests LevelDB's C++ interface, installed by scripts/install-leveldb.sh.
#
#   scripts/cpp-test.sh PREFIX
#
# Each program of bindings/cpp/tests is compiled with LevelDB's headers and with ours. It must print the same with LevelDB, with
# our library in place of LevelDB, and with our headers and our library, shared and static. LevelDB is Debian's, installed, or
# fetched into PREFIX/debian.
set -eu
prefix=$(cd "${1:?usage: scripts/cpp-test.sh PREFIX}" && pwd)
cd "$(dirname "$0")/../bindings/cpp"
. ../../scripts/find-leveldb.sh
here=$PWD
work=$prefix/test
rm -rf "$work"
mkdir -p "$work"
failures=0

fail() { echo "cpp: FAILED: $*" >&2; failures=$((failures + 1)); }
ok() { echo "cpp: ok: $*"; }

# compile OUTPUT SOURCE OPTION...
compile() {
    output=$1 source=$2
    shift 2
    "${CXX:-c++}" -std=c++17 -g -Wall -Wextra -Werror "$source" "$@" -o "$output"
}

# run LIBRARIES PROGRAM ARGUMENT...: runs a program with the libraries of a directory.
run() {
    libraries=$1
    shift
    LD_LIBRARY_PATH=$libraries timeout 120 "$@"
}

# Every header compiles alone, with every standard from C++11 on.
headers() {
    for standard in 11 14 17 20; do
        for header in $(cd include && find . -name '*.h') leveldb/c.h terrace/c.h; do
            echo "#include \"$header\"" | "${CXX:-c++}" -std=c++$standard -fsyntax-only -Wall -Wextra -Wpedantic -Werror \
                -I"$prefix/include" -x c++ - || { fail "$header with C++$standard"; return 0; }
        done
    done
    ok "headers compile alone as C++11, 14, 17 and 20"
}

# The library exports every symbol of LevelDB's except those of the list, with virtual tables of the same size.
symbols() {
    exported() { nm -DS --defined-only "$1/libleveldb.so.1d" | awk '{print $NF}' | grep -v '^_ZNSt\|^_ZSt\|^_ZT.St\|^_ZT.NSt' | sort; }
    tables() { nm -DS --defined-only "$1/libleveldb.so.1d" | awk '$4 ~ /^_ZTVN7leveldb/ {print $4, $2}' | sort; }
    exported "$theirs" >"$work/theirs"
    exported "$prefix/lib" >"$work/ours"
    comm -23 "$work/theirs" "$work/ours" | c++filt >"$work/missing"
    while read -r symbol; do
        listed=no
        while read -r pattern; do
            case $pattern in '' | '#'*) continue ;; esac
            # The pattern is a shell pattern, so it is not quoted.
            # shellcheck disable=SC2254
            case $symbol in $pattern) listed=yes ;; esac
        done <missing-symbols.txt
        [ $listed = yes ] || fail "missing, and not in missing-symbols.txt: $symbol"
    done <"$work/missing"
    tables "$theirs" >"$work/their-tables"
    tables "$prefix/lib" >"$work/our-tables"
    cmp "$work/their-tables" "$work/our-tables" || fail "sizes of virtual tables differ"
    soname=$(objdump -p "$prefix/lib/libleveldb.so" | awk '$1 == "SONAME" {print $2}')
    [ "$soname" = libleveldb.so.1d ] || fail "soname $soname"
    ok "symbols: $(comm -12 "$work/theirs" "$work/ours" | wc -l) of LevelDB's $(wc -l <"$work/theirs"), $(wc -l <"$work/missing") missing and listed"
}

# A program prints the same in all four combinations.
same_output() {
    name=$1
    compile "$work/$name-theirs" "tests/$name.cc" -I"$debian/include" -L"$theirs" -lleveldb -pthread
    compile "$work/$name-shared" "tests/$name.cc" -I"$prefix/include" -L"$prefix/lib" -lleveldb -pthread
    compile "$work/$name-static" "tests/$name.cc" -I"$prefix/include" "$prefix/lib/libleveldb.a" -pthread -ldl -lm
    for try in theirs:$theirs theirs:$prefix/lib shared:$prefix/lib static:/nowhere; do
        place=$(mktemp -d "$work/place.XXXX")
        output=$work/$name.$(echo "$try" | tr /: --)
        run "${try#*:}" "$work/$name-${try%%:*}" "$place" >"$output" || { fail "$name with $try ends with $?"; return 0; }
        [ "$try" != "theirs:$theirs" ] || { expected=$output; rm -rf "$place"; continue; }
        diff "$expected" "$output" || fail "$name: other output with $try"
        [ "$name" != store ] || grep -q Terrace "$place/store/LOG" || fail "$name with $try has not used Terrace"
        rm -rf "$place"
    done
    ok "$name prints $(wc -l <"$expected") lines, the same with LevelDB and Terrace"
}

# Both libraries write one store in turns.
handover() {
    compile "$work/handover" tests/handover.cc -I"$debian/include" -L"$theirs" -lleveldb
    for start in 0 1; do
        for round in 0 1 2 3 4 5; do
            [ $(((round + start) % 2)) = 0 ] && libraries=$prefix/lib || libraries=$theirs
            run "$libraries" "$work/handover" "$work/handover-$start" $round || { fail "handover, round $round with $libraries"; return 0; }
        done
    done
    ok "LevelDB and Terrace take turns with one store"
}

# Behaviour in which Terrace differs. Valgrind finds leaks and invalid accesses.
differences() {
    compile "$work/terrace" tests/terrace.cc -fno-rtti -I"$prefix/include" -L"$prefix/lib" -lleveldb
    mkdir "$work/differences" "$work/valgrind"
    run "$prefix/lib" "$work/terrace" "$work/differences" || fail "terrace.cc"
    command -v valgrind >/dev/null || { echo "cpp: skipped: Valgrind is not installed" >&2; return 0; }
    for program in values-shared:"$work" terrace:"$work/valgrind" store-shared:"$work/valgrind"; do
        run "$prefix/lib" valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect \
            --errors-for-leak-kinds=definite,indirect --error-exitcode=9 "$work/${program%%:*}" "${program#*:}" >"$work/valgrind.txt" || { fail "Valgrind: $program"; return 0; }
    done
    ok "Valgrind finds no leak and no invalid access"
}

# The pkg-config and CMake packages find the library.
packages() {
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs leveldb)
    # shellcheck disable=SC2086
    compile "$work/by-pkg-config" tests/layout.cc $flags && ok "pkg-config package"
    command -v cmake >/dev/null || { echo "cpp: skipped: CMake is not installed" >&2; return 0; }
    mkdir "$work/cmake"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(uses CXX)' 'find_package(leveldb 1.20 REQUIRED)' \
        "add_executable(uses $here/tests/layout.cc)" 'target_link_libraries(uses leveldb::leveldb)' >"$work/cmake/CMakeLists.txt"
    if cmake -S "$work/cmake" -B "$work/cmake/built" -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.txt" 2>&1 &&
        cmake --build "$work/cmake/built" >>"$work/cmake.txt" 2>&1 && "$work/cmake/built/uses" >/dev/null; then
        ok "CMake package"
    else
        cat "$work/cmake.txt" >&2
        fail "CMake package"
    fi
}

find_leveldb "$prefix/debian"
headers
symbols
for name in layout values store objects; do same_output $name; done
handover
differences
packages
[ $failures = 0 ] || { echo "cpp: $failures failures" >&2; exit 1; }
