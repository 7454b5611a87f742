#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET…]: runs every target of fuzz/, or those named, for so long, beginning with the seeds and with what
# earlier runs have found. An input that fails is written to fuzz/found/TARGET, where crates/engine/tests/corpus.rs meets it.
set -euo pipefail
cd "$(dirname "$0")/.."
missing() { echo "fuzz.sh: $1 is missing: $2" >&2; exit 2; }
seconds=${1:?usage: fuzz.sh SECONDS [TARGET…]}
shift
rustup run nightly rustc --version > /dev/null 2>&1 || missing "a nightly compiler" "rustup toolchain install nightly"
cargo fuzz --version > /dev/null 2>&1 || missing cargo-fuzz "cargo install cargo-fuzz"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
work=$CARGO_TARGET_DIR/fuzz
cargo +nightly fuzz build
programs=$CARGO_TARGET_DIR/$(rustc -vV | sed -n 's/^host: //p')/release
"$programs/seeds" "$work/seeds"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls fuzz/fuzz_targets | sed 's/\.rs$//')
failed=()
for target in "${targets[@]}"; do
  mkdir -p "$work/corpus/$target" "fuzz/found/$target"
  printf '%-10s' "$target"
  log=$work/$target.log
  "$programs/$target" "$work/corpus/$target" "$work/seeds/$target" -max_total_time="$seconds" -max_len=8192 -timeout=60 \
    -print_final_stats=1 -artifact_prefix="fuzz/found/$target/" > "$log" 2>&1 || failed+=("$target")
  sed -n 's/^stat::number_of_executed_units: /executions: /p' "$log"
done
rmdir --ignore-fail-on-non-empty fuzz/found/* fuzz/found
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}; what they say is in $work/TARGET.log" >&2; exit 1; }
