#!/usr/bin/env bash
# sanitize.sh [address|thread]…: tests under AddressSanitizer and ThreadSanitizer, both if none is named. Needs a nightly compiler.
#
# Our crates and all dependencies in Rust are instrumented; the standard library is not, since it comes compiled, nor is C
# (Zstd). So ThreadSanitizer does not see what the library does between its own atomics: what it reports of `Arc` and channels
# is taken for its own mistake (scripts/tsan.txt says which), everything else for ours.
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
  cargo +nightly test --target "$host" -p terrace --lib
  cargo +nightly test --target "$host" -p terrace --test it -- concurrency:: group::
}

for sanitizer in "${@:-address thread}"; do
  for one in $sanitizer; do
    echo "== $one"
    ("$one")
  done
done
