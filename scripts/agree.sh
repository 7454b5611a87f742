#!/usr/bin/env bash
# Runs LevelDB under `terrace bench` and under LevelDB's own db_bench, with the same build of
# LevelDB, and compares the µs/op. Rounds of the two drivers alternate. The script prints the
# medians of each workload and their ratio. It exits with 1 if the two medians of a workload differ
# by more than 10 %. db_bench does not check results, so the ratio uses `terrace bench
# --check-answers off`. The last column is the median with checking. Usage: agree.sh [ROUNDS]
# [DIRECTORY for the stores]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-9} num=1000000 value=100
peers=${TERRACE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/terrace/peers}
theirs=$peers/leveldb_db_bench ours=${CARGO_TARGET_DIR:-target}/release/terrace
[ -x "$theirs" ] || { echo "agree: $theirs is missing; make peers builds it" >&2; exit 2; }
cargo build --release --quiet -p terrace-cli
work=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/terrace-agree-XXXXXX")
trap 'rm -rf "$work"' EXIT

# Each element is a list of workloads that run on one new store. A workload that leaves pending
# compactions must be the last of its list, because `terrace bench` waits for compactions before the
# next workload and db_bench does not.
plans=(fillseq,readseq,readreverse,readrandom,seekrandom fillrandom)

# Both functions print lines of the form "WORKLOAD DRIVER µs/op".
their_round() {
  "$theirs" --db="$work/db" --benchmarks="$1" --num=$num --value_size=$value --bloom_bits=10 --cache_size=$((8 << 20)) \
    --write_buffer_size=$((4 << 20)) --max_file_size=$((2 << 20)) --open_files=1000 >"$work/out" 2>"$work/err" ||
    { cat "$work/err" >&2; exit 1; }
  tr '\r' '\n' <"$work/out" | awk '/micros\/op/ { print $1, "theirs", $3 }'
  rm -rf "$work/db"
}
our_round() { # WORKLOADS on|off WHO
  "$ours" bench --engine leveldb --workload "$1" --num $num --value-size $value --bloom-bits 10 --cache-size 8MiB \
    --write-buffer-size 4MiB --max-file-size 2MiB --max-open-files 1000 --compression snappy --histogram off \
    --check-answers "$2" --rounds 1 --device "dir:$work/ours" --csv "$work/rows.csv" >/dev/null 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
  awk -F, -v who="$3" '/"/ { print "agree: a quoted field, not understood" >"/dev/stderr"; exit 1 }
           NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
           { print $column["workload"], who, $column["micros_per_op"] }' "$work/rows.csv"
}

for round in $(seq "$rounds"); do
  for plan in "${plans[@]}"; do
    their_round "$plan"
    our_round "$plan" off ours
    our_round "$plan" on checked
  done
  echo "round $round of $rounds" >&2
done | tee "$work/all" | awk '
  function median(list, n,   i, j, t) {
    for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
  }
  { if (!($1 in seen)) { seen[$1] = 1; order[++workloads] = $1 }
    value[$1, $2, ++count[$1, $2]] = $3 + 0 }
  END {
    split("theirs ours checked", sides)
    printf "%-12s %16s %12s %8s %9s\n", "µs/op", "its own db_bench", "this driver", "ratio", "checking"
    for (w = 1; w <= workloads; w++) {
      name = order[w]
      for (side = 1; side <= 3; side++) {
        who = sides[side]; split("", list)
        for (i = 1; i <= count[name, who]; i++) list[i] = value[name, who, i]
        middle[side] = median(list, count[name, who])
      }
      if (!count[name, "theirs"] || !count[name, "ours"] || !count[name, "checked"]) { print name ": one side is missing"; bad++; continue }
      ratio = middle[2] / middle[1]
      off = (ratio > 1.1 || ratio < 1 / 1.1); bad += off
      printf "%-12s %16.3f %12.3f %8.3f %9.3f%s\n", name, middle[1], middle[2], ratio, middle[3], off ? "  more than 10 % apart" : ""
    }
    exit bad > 0
  }'
