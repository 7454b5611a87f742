#!/usr/bin/env bash
# lines-speed.sh [PAIRS]: measures the speed of `terrace load` and `terrace dump` with hex lines;
# fails below 200 MB/s. The speed is megabytes of lines per second of processor time (user and
# system, all threads), so that other work on the machine has little effect. Keys have 16 bytes and
# values 400. The script loads the pairs in random order and in key order, and dumps them. Needs
# `cargo build --release -p terrace-cli`, or the path of a binary in TERRACE.
set -euo pipefail
cd "$(dirname "$0")/.."
terrace=${TERRACE:-${CARGO_TARGET_DIR:-target}/release/terrace}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
lines=$folder/lines
head -c $((416 * ${1:-500000})) /dev/urandom | od -An -v -tx1 -w416 | tr -d ' ' | sed 's/^.\{32\}/&\t/' > "$lines"
bytes=$(stat -c %s "$lines")
slow=0

# measure NAME COMMAND…: runs COMMAND, prints its speed, and sets `slow` if it is below 200 MB/s
measure() {
  local what=$1 used
  shift
  sync # writes back dirty pages of earlier steps, so that COMMAND does not pay for them
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
