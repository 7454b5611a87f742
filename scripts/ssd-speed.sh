#!/usr/bin/env bash
# Measures the speed of a virtual drive in memory through ext4 and direct I/O, and the cost of
# recording its requests. Prints the medians of ROUNDS (5) rounds. Each round runs two servers, one
# without and one with a recording. Needs root, /dev/fuse, loop devices and fio, 4 GiB of memory and
# 3 GiB of disk. Exits with 1 if the drive without recording has less than 600 MB/s or 40,000 IOPS,
# or if recording takes more than three times the processor time.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "ssd-speed: mounting a file system takes root" >&2; exit 1; }
command -v fio >/dev/null || { echo "ssd-speed: needs fio" >&2; exit 1; }
cargo build --release --quiet -p terrace-cli
terrace=${CARGO_TARGET_DIR:-target}/release/terrace
work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")

down() {
  mountpoint -q "$work/mnt" && umount "$work/mnt"
  if [ -n "${server:-}" ]; then kill -INT "$server" 2>/dev/null || true; wait "$server" || true; fi
  server=
  rm -f "$work/record"
}
end() {
  down || true
  "$terrace" ssd cleanup --work "$work" >/dev/null || true
  rm -rf "$work"
}
trap end EXIT

# Prints the processor time that the server has used, in clock ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }
# Runs a job of fio. Appends a line to the file $1: MB/s, requests per second, and clock ticks of
# the server.
job() {
  local out=$1 before
  shift
  before=$(ticks)
  fio --name=job --filename="$work/mnt/file" --size=768m --direct=1 --ioengine=libaio --randseed=1 \
    --output-format=terse --terse-version=3 "$@" |
    awk -F';' '{ printf "%.0f %.0f ", $48 * 1.024 / 1000, $49 }' >"$work/line"
  echo "$(cat "$work/line")$(($(ticks) - before))" >>"$work/$out"
}
round() {
  local kind=$1 node
  shift
  : >"$work/said"
  "$terrace" ssd serve --size 1GiB --work "$work" --json "$@" >"$work/said" 2>"$work/log" &
  server=$!
  until [ -s "$work/said" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
  done
  node=$(grep -o '"device":"[^"]*"' "$work/said" | cut -d'"' -f4)
  mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$node"
  mkdir -p "$work/mnt"
  mount "$node" "$work/mnt"
  job "$kind.first" --rw=write --bs=1m --iodepth=4
  job "$kind.sequential" --rw=write --bs=1m --iodepth=4 --loops=2
  job "$kind.random" --rw=randwrite --bs=4k --iodepth=16 --io_size=384m
  down
}
median() { cut -d' ' -f"$1" "$work/$2" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
# Prints the cost of recording as a factor, the median over the rounds: of processor time (field 3),
# or of time (other fields).
factor() {
  paste -d' ' "$work/plain.$1" "$work/recorded.$1" | awk -v at="$2" '{ print at == 3 ? $6 / $3 : $(at) / $(at + 3) }' |
    sort -n | awk '{ all[NR] = $1 } END { printf "%.2f", all[int((NR + 1) / 2)] }'
}

for n in $(seq "${ROUNDS:-5}"); do
  echo "round $n of ${ROUNDS:-5}" >&2
  round plain
  round recorded --record "$work/record"
done
echo "ext4 on a drive of 1 GiB in memory, direct I/O, medians of ${ROUNDS:-5} rounds; load average $(cut -d' ' -f1 /proc/loadavg) on $(nproc) processors"
printf '%-38s %10s %10s   %s\n' "" plain recorded "recording costs, in processor time of the server and in time"
row() { printf '%-38s %10s %10s   x %s, x %s\n' "$1" "$(median "$3" "plain.$2")" "$(median "$3" "recorded.$2")" "$(factor "$2" 3)" "$(factor "$2" "$3")"; }
row "1 MiB in order, first time, MB/s" first 1
row "1 MiB in order, again, MB/s" sequential 1
row "4 KiB at random, depth 16, IOPS" random 2
awk -v seq="$(median 1 plain.sequential)" -v iops="$(median 2 plain.random)" -v s="$(factor sequential 3)" -v r="$(factor random 3)" \
  'BEGIN { ok = seq >= 600 && iops >= 40000 && s <= 3 && r <= 3; print ok ? "all bars are held" : "a bar is missed: 600 MB/s, 40000 IOPS, x 3"; exit !ok }'
