#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET…]: runs every target of fuzz/, or those named, for so long, beginning with the seeds, with the corpus of
# fuzz/corpus and with what earlier runs have found, and says how many inputs were tried. An input that fails is written to
# fuzz/found/TARGET, where crates/engine/tests/it/corpus.rs meets it. KEEP=BYTES then makes fuzz/corpus/TARGET anew, of the shortest
# inputs that together take all ways which are known, up to so many bytes.
# RUNS=N ends a target after N inputs; SANITIZER=none goes without AddressSanitizer, some times as fast.
# Each run adds a line to target/fuzz/executions.tsv: commit, sanitizer, target, executions.
set -euo pipefail
cd "$(dirname "$0")/.."
missing() { echo "fuzz.sh: $1 is missing: $2" >&2; exit 2; }
seconds=${1:?usage: fuzz.sh SECONDS [TARGET…]}
shift
sanitizer=${SANITIZER:-address}
rustup run nightly rustc --version > /dev/null 2>&1 || missing "a nightly compiler" "rustup toolchain install nightly"
cargo fuzz --version > /dev/null 2>&1 || missing cargo-fuzz "cargo install cargo-fuzz"

work=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
export CARGO_TARGET_DIR=$work/$sanitizer
cargo +nightly fuzz build --sanitizer "$sanitizer"
programs=$CARGO_TARGET_DIR/$(rustc -vV | sed -n 's/^host: //p')/release
"$programs/seeds" "$work/seeds"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls fuzz/fuzz_targets | sed 's/\.rs$//')
commit=$(git rev-parse --short HEAD 2> /dev/null || echo unknown)
failed=() total=0
for target in "${targets[@]}"; do
  mkdir -p "$work/corpus/$target" "$work/seeds/$target" "fuzz/found/$target" fuzz/corpus
  log=$work/$target.log
  "$programs/$target" "$work/corpus/$target" "$work/seeds/$target" "fuzz/found/$target" \
    -max_total_time="$seconds" -runs="${RUNS:--1}" -max_len=8192 -timeout=60 \
    -print_final_stats=1 -artifact_prefix="fuzz/found/$target/" > "$log" 2>&1 || failed+=("$target")
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  executions=${executions:-0} total=$((total + ${executions:-0}))
  printf '%s\t%s\t%s\t%s\n' "$commit" "$sanitizer" "$target" "$executions" >> "$work/executions.tsv"
  printf '%-12s %12s executions\n' "$target" "$executions"
  [ -n "${KEEP:-}" ] || continue
  rm -rf "$work/merged" && mkdir "$work/merged"
  "$programs/$target" -merge=1 -max_len=8192 "$work/merged" "$work/corpus/$target" "$work/seeds/$target" > "$log.merge" 2>&1
  "$programs/pack" "$work/merged" "fuzz/corpus/$target" "$KEEP"
done
printf '%-12s %12s executions, sanitizer: %s\n' total "$total" "$sanitizer"
find fuzz/found -type d -empty -delete
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}; what they say is in $work/TARGET.log" >&2; exit 1; }
