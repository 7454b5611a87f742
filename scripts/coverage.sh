#!/bin/sh
# Measures the share of lines that tests reach in the crates format, storage and engine. Fails if a
# crate has less than 90 %. Writes the lines that no test reaches to target/coverage/missed.txt.
# Needs: rustup component add llvm-tools
set -eu
cd "$(dirname "$0")/.."
tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
[ -x "$tools/llvm-cov" ] || { echo "needs: rustup component add llvm-tools" >&2; exit 2; }
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}/coverage" && cd "${CARGO_TARGET_DIR:-target}/coverage" && pwd)
rm -rf "$target/profiles"
export CARGO_TARGET_DIR="$target" RUSTFLAGS=-Cinstrument-coverage LLVM_PROFILE_FILE="$target/profiles/%8m.profraw"
cargo test --no-run --message-format=json -p terrace-format -p terrace-vfs -p terrace-storage -p terrace -p terrace-sim --lib --tests > "$target/built"
sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"executable":"\([^"]*\)".*/\1 \2/p' "$target/built" |
  sed 's/\(\/engine .*\/it-[^ ]*\)$/\1 --skip crash::/' > "$target/tests" # with counters this suite takes more than half an hour
# Each test program runs on one processor. If its threads run on several processors and increment
# the same counters, the program takes ten times as long.
cpus=$(awk '/^Cpus_allowed_list/ {
  parts = split($2, part, ",")
  for (p = 1; p <= parts; p++) {
    ends = split(part[p], end, "-")
    for (cpu = end[1]; cpu <= end[ends]; cpu++) print cpu
  }
}' /proc/self/status)
export cpus
xargs -P "$(nproc)" -L 1 --process-slot-var=SLOT \
  sh -c 'cd "$0" && test=$1 && shift && more=$* && set -- $cpus && shift "$SLOT" && taskset -c "$1" "$test" $more' < "$target/tests"
"$tools/llvm-profdata" merge --sparse "$target"/profiles/*.profraw -o "$target/all.profdata"
objects=$(sed 's/^[^ ]* \([^ ]*\).*/--object \1/' "$target/tests")
others='/(rustc|registry|tests|sim|peers|lab|device)/'
"$tools/llvm-cov" report --instr-profile "$target/all.profdata" --ignore-filename-regex "$others" $objects > "$target/report.txt"
"$tools/llvm-cov" show --instr-profile "$target/all.profdata" --ignore-filename-regex "$others" $objects |
  awk '/^\/|^[a-z].*:$/ { file = $0 } /^ *[0-9]+\| *0\|/ { print file $0 }' > "$target/missed.txt"
awk '
  # Filename Regions Missed Cover Functions Missed Executed Lines Missed Cover …
  match($1, /(format|storage|engine)\/src\//) {
    crate = substr($1, RSTART, RLENGTH - 5); lines[crate] += $8; missed[crate] += $9
  }
  END {
    for (crate in lines) {
      share = 100 * (lines[crate] - missed[crate]) / lines[crate]
      printf "%-8s %6d lines %6.2f %%\n", crate, lines[crate], share
      low += share < 90; crates++
    }
    if (crates != 3) print "the report is not understood"
    exit low > 0 || crates != 3
  }' "$target/report.txt"
