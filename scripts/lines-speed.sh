#!/usr/bin/env bash
# lines-speed.sh [PAIRS]: how fast `load` and `dump` are with hex lines, against the bar of 200 MB/s: megabytes of lines for each second
# of processor time, user and system, of all threads, so that other work on the machine counts little. Pairs of 16 and 400 bytes; they
# come in random order, in order, and go out again. Needs `cargo build --release -p terrace-cli`, or TERRACE.
set -euo pipefail
cd "$(dirname "$0")/.."
terrace=${TERRACE:-${CARGO_TARGET_DIR:-target}/release/terrace}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
lines=$folder/lines
head -c $((416 * ${1:-500000})) /dev/urandom | od -An -v -tx1 -w416 | tr -d ' ' | sed 's/^.\{32\}/&\t/' > "$lines"
bytes=$(stat -c %s "$lines")
slow=0

# measure WHAT COMMAND…: runs it and judges its speed
measure() {
  local what=$1 used
  shift
  sync # what the steps before have left to be written is not its cost
  TIMEFORMAT='%U %S'
  used=$({ time "$@" > "$folder/out" 2> "$folder/told"; } 2>&1)
  awk -v what="$what" -v bytes="$bytes" '{
    speed = bytes / 1e6 / ($1 + $2)
    printf "%-22s %7.1f MB in %6.2f s of processor time: %4.0f MB/s\n", what, bytes / 1e6, $1 + $2, speed
    exit speed < 200
  }' <<< "$used" || slow=1
}

measure "load, random order" "$terrace" load "$folder/random" "$lines" --format hex
measure "dump" "$terrace" dump "$folder/random" --format hex
mv "$folder/out" "$folder/sorted"
measure "load, in order" "$terrace" load "$folder/ordered" "$folder/sorted" --format hex
measure "dump" "$terrace" dump "$folder/ordered" --format hex
cmp "$folder/out" "$folder/sorted"
[ $slow = 0 ] || { echo "below 200 MB/s" >&2; exit 1; }
