#!/usr/bin/env bash
# sanitize.sh [address|thread]…: runs tests under AddressSanitizer and ThreadSanitizer; both if none
# is named. Needs a nightly compiler.
#
# The crates of this repository and all Rust dependencies are instrumented. The standard library is
# not, because it is already compiled, and C code (Zstandard) is not either. So ThreadSanitizer does
# not see how atomics inside the standard library order memory accesses, and reports false races of
# `Arc` and channels. scripts/tsan.txt suppresses these. Any other report is treated as a fault of
# this repository.
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-$PWD/target}

address() {
  export CARGO_TARGET_DIR=$target/address RUSTFLAGS=-Zsanitizer=address
  ASAN_OPTIONS=handle_sigbus=0 cargo +nightly test --no-fail-fast --target "$host" -p terrace-vfs -p terrace-storage --lib --tests
  cargo +nightly test --target "$host" -p terrace-device --test it -- node:: serve::
  local suites=(allocations concurrency corpus corrupt creation interop iteration memory model reads seeks)
  cargo +nightly test --target "$host" -p terrace --lib
  cargo +nightly test --target "$host" -p terrace --test it -- "${suites[@]/%/::}"
}

thread() {
  export CARGO_TARGET_DIR=$target/thread RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
  export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.txt halt_on_error=1"
  cargo +nightly test --target "$host" -p terrace-vfs --lib -- mapping::
  cargo +nightly test --target "$host" -p terrace --lib
  cargo +nightly test --target "$host" -p terrace --test it -- concurrency:: group::
}

for sanitizer in "${@:-address thread}"; do
  for one in $sanitizer; do
    echo "== $one"
    ("$one")
  done
done
