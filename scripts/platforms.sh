#!/bin/sh
# Checks the README's statements about compilers and platforms, as far as this machine permits.
# Prints the Rust version of this machine and the minimum version that the README promises (`make
# lint` checks that the code uses nothing newer). Checks that the library compiles for 64-bit ARM if
# the target is installed (rustup target add aarch64-unknown-linux-gnu). It runs nothing on that
# target and compiles no C for it.
set -eu
cd "$(dirname "$0")/.."
promised=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
here=$(rustc --version | cut -d ' ' -f 2)
case $here in
  "$promised".*) echo "Rust $here: the oldest that is promised" ;;
  *) echo "Rust $here: newer than $promised, which is promised; clippy's incompatible_msrv (make lint) stands for it" ;;
esac
arm=aarch64-unknown-linux-gnu
if [ -d "$(rustc --print sysroot)/lib/rustlib/$arm" ]; then
  # `cargo check` does not link Zstandard's C code, so `true` can replace the C compiler.
  CC_aarch64_unknown_linux_gnu=true AR_aarch64_unknown_linux_gnu=true cargo check --quiet --target $arm -p terrace
  echo "$arm: compiles"
else
  echo "$arm: not tried, its library is missing"
fi
# The library without a C compiler, and without any codec.
CC=false cargo check --quiet -p terrace
cargo check --quiet -p terrace --no-default-features
cargo test --quiet -p terrace-format --no-default-features --lib compress
echo "the library compiles without zstd, and without any codec"
