#!/bin/sh
# What README says of compilers and platforms, as far as this machine can tell: with which Rust everything was compiled here, that
# nothing newer than the oldest that is promised is used, and that the library compiles for 64-bit ARM, where that compiler's library is
# installed (rustup target add aarch64-unknown-linux-gnu). Nothing runs there, and no C is compiled for it.
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
  # Zstd's C is not linked by a check: whatever compiles nothing will do.
  CC_aarch64_unknown_linux_gnu=true AR_aarch64_unknown_linux_gnu=true cargo check --quiet --target $arm -p terrace
  echo "$arm: compiles"
else
  echo "$arm: not tried, its library is missing"
fi
