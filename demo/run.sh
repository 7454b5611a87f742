#!/usr/bin/env bash
# `make demo`: Terrace opens a store that the real LevelDB wrote, uses and checks it, and LevelDB
# opens it again. Each run starts with an empty target/demo and leaves its store there.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
work=$target/demo
store=$work/store

bold='' plain=''
[ ! -t 1 ] || bold=$'\033[1m' plain=$'\033[0m'
step() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
say() { printf '  %s\n' "$1"; }
die() { printf 'demo: %s\n' "$1" >&2; exit 1; }
show() { printf '  $ %s\n' "$*"; "$@" | sed 's/^/    /'; }

# Installs a package if this user has permission to do so.
need() {
  local what=$1 package=$2
  say "missing: $what (package $package)"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null || die "install it as root: apt-get install $package"
    sudo=(sudo -n)
  fi
  command -v apt-get >/dev/null || die "install $what with this system's package manager"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
}
has_leveldb() {
  /sbin/ldconfig -p 2>/dev/null | grep -qE 'libleveldb\.so' || ls /usr/lib*/libleveldb.so* /usr/lib/*/libleveldb.so* >/dev/null 2>&1
}

step "1. Tools"
command -v cargo >/dev/null || die "no cargo: install Rust 1.95 or newer (https://rustup.rs)"
command -v cc >/dev/null || need "a C compiler" build-essential
has_leveldb || need "the real LevelDB" libleveldb1d
say "found cargo, cc and libleveldb; building terrace (release)"
cargo build --release --quiet -p terrace-cli --bin terrace --example leveldb
terrace=$target/release/terrace
leveldb=$target/release/examples/leveldb
version=$("$leveldb" version)

step "2. The real LevelDB $version writes a store"
rm -rf "$work"
mkdir -p "$work"
# The data are this repository's own files: each path is a key, and the file's content is the value.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files -co --exclude-standard
else
  find . -type f -not -path './target/*' -not -path './.git/*' | sed 's|^\./||'
fi | while IFS= read -r file; do [ -f "$file" ] && printf '%s\n' "$file"; done | LC_ALL=C sort >"$work/files"
written=$("$leveldb" put-files "$store" <"$work/files")
bytes=$(tr '\n' '\0' <"$work/files" | xargs -0 cat | wc -c)
say "$written files of this repository, $bytes bytes, as path -> content"
say "$(ls "$store" | tr '\n' ' ')"

step "3. Terrace opens that directory in place"
say "Nothing is converted. Reading changes no file."
show "$terrace" inspect "$store"
counted=$("$terrace" scan "$store" --keys-only --escape | wc -l)
say "a scan finds $counted keys"
[ "$counted" -eq "$written" ] || die "LevelDB wrote $written keys, Terrace finds $counted"

step "4. Terrace reads it"
say "A point read, compared with the file it came from:"
printf '  $ %s\n' "terrace get STORE README.md"
"$terrace" get -n "$store" README.md | cmp - README.md || die "README.md differs"
say "  the same $(wc -c <README.md) bytes"
say "A range: all keys that begin with docs/"
show "$terrace" scan "$store" --prefix docs/ --keys-only
docs=$("$terrace" scan "$store" --prefix docs/ --keys-only | wc -l)
[ "$docs" -eq "$(grep -c '^docs/' "$work/files")" ] || die "the range is not the files below docs/"

step "5. Terrace writes more"
say "Every line of every Rust file, under line/PATH/NUMBER, from a stream:"
grep '\.rs$' "$work/files" | while IFS= read -r file; do
  sed 's/\\/\\\\/g; s/\t/\\t/g' "$file" | awk -v path="$file" '{ printf "line/%s/%06d\t%s\n", path, NR, $0 }'
done >"$work/lines"
lines=$(wc -l <"$work/lines")
show "$terrace" load "$store" "$work/lines"
say "One key is deleted:"
show "$terrace" delete "$store" README.md
show "$terrace" compact "$store"

step "6. Terrace checks every byte"
show "$terrace" check "$store"

step "7. Back to LevelDB $version"
say "The real LevelDB opens the same directory with its paranoid checks on and reads all of it."
"$terrace" dump "$store" --format hex >"$work/terrace.hex"
"$leveldb" dump "$store" >"$work/leveldb.hex"
cmp "$work/terrace.hex" "$work/leveldb.hex" || die "the two engines disagree"
returned=$(wc -l <"$work/leveldb.hex")
[ "$returned" -eq $((written + lines - 1)) ] || die "expected $((written + lines - 1)) pairs, LevelDB reads $returned"
say "$returned pairs, byte for byte what Terrace reads"

step "Summary"
say "LevelDB $version wrote $written pairs; Terrace read all of them in place, wrote $lines more and deleted 1;"
say "LevelDB read back $returned = $written + $lines - 1 pairs, equal to Terrace's own dump, with its own checks on."
say "The store is in $store; look around with: $terrace inspect $store"
