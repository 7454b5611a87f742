#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET…]: runs every target of fuzz/, or the named ones, for SECONDS each, and
# prints the number of inputs that it executed. A target starts with the seeds, the corpus of
# fuzz/corpus and the failing inputs of earlier runs. A failing input is written to
# fuzz/found/TARGET; crates/engine/tests/it/corpus.rs replays it in every test run. KEEP=BYTES
# replaces fuzz/corpus/TARGET after the run by the shortest inputs that together reach all known
# paths, up to BYTES. RUNS=N ends a target after N inputs. SANITIZER=none runs without
# AddressSanitizer, which is a few times faster. Each run adds a line to target/fuzz/executions.tsv:
# commit, sanitizer, target, executions.
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
