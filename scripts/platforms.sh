#!/usr/bin/env bash
# Type-checks Terrace for other platforms, runs the tests for which this machine has the tools, and
# prints a table of the results.
#   platforms.sh sample   compiles the command for Windows and the library for macOS; runs formats,
#                         files and a contract of storage on musl and 64-bit ARM, files on 32-bit x86
#   platforms.sh full     compiles for all; also runs tests of storage and of the engine, on Windows by wine
# A platform whose tools are missing is skipped with a reason. With TERRACE_REQUIRE=platforms it
# fails instead. Rust's libraries come from `rustup target add`, the tools from Debian: musl-tools,
# gcc-aarch64-linux-gnu, gcc-s390x-linux-gnu, gcc-i686-linux-gnu, libc6-dev-arm64-cross,
# libc6-dev-s390x-cross, libc6-dev-i386-cross, qemu-user, gcc-mingw-w64-x86-64-win32, wine.
set -euo pipefail
cd "$(dirname "$0")/.."
how=${1:-full}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
libraries=(-p terrace-format -p terrace-vfs -p terrace-storage)
rows=()
compiled="library, C, command"
storage="storage"
[ "$how" = full ] || { compiled="what the tests need"; storage="one contract of storage"; }

row() { rows+=("$(printf '%-28s %-44s %s' "$1" "$2" "$3")"); }

# Returns whether the target can be tried. Otherwise adds a row with the reason.
has() { # target tool...
  local target=$1 tool missing=
  shift
  [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || missing="rustup target add $target"
  for tool in "$@"; do [ -e "$tool" ] || command -v "$tool" > /dev/null || missing="$tool is missing"; done
  [ -n "$missing" ] || return 0
  row "$target" "not tried: $missing" ""
  case ",${TERRACE_REQUIRE:-}," in *,platforms,*) printf '%s: %s\n' "$target" "$missing" >&2; exit 1 ;; esac
  return 1
}

# Type-checks the command and the C interface, and with them the library. `true` takes the place of
# the C compiler, because a check links nothing.
check() { # target
  local name=${1//-/_}
  env "CC_$name=true" "AR_$name=true" cargo check --quiet --target "$1" -p terrace-capi -p terrace-cli
}

# Fails if a word selects or skips no test, so that no row of the table claims tests that do not exist.
exist() { # target package... -- [filter...]
  local target=$1 packages=() tests word
  shift
  while [ "$1" != -- ]; do packages+=("$1"); shift; done
  shift
  tests=$(cargo test --quiet --target "$target" "${packages[@]}" --tests -- --list)
  for word in "$@"; do
    [ "$word" = --skip ] || grep -qF -- "$word" <<< "$tests" || { printf 'there is no test %s\n' "$word" >&2; exit 1; }
  done
}

# Runs tests on a target. The words after `--` select tests.
run() { # target package... -- [filter...]
  local target=$1 packages=() begin=$SECONDS
  shift
  while [ "$1" != -- ]; do packages+=("$1"); shift; done
  shift
  printf '\n== %s: %s\n' "$target" "${packages[*]} $*"
  cargo test --quiet --target "$target" "${packages[@]}" --tests -- "$@"
  printf '== %s s\n' $((SECONDS - begin))
}

# Runs the tests of formats and files, and those of storage: all, or one contract that every store
# fulfils.
run_libraries() { # target [filter...]
  local target=$1
  shift
  if [ "$how" = full ]; then
    run "$target" "${libraries[@]}" -- "$@"
  else
    exist "$target" -p terrace-format -p terrace-vfs -p terrace-storage -- contract::a_directory_passes "$@"
    run "$target" -p terrace-format -p terrace-vfs -- "$@"
    run "$target" -p terrace-storage -- contract::a_directory_passes "$@"
  fi
}

# The tests of the engine that use files and models of power cuts, without those that take minutes
# under an emulator.
engine=(check:: checkpoint:: column_families:: compat:: corpus:: creation:: durability:: events:: followers::
  manual_compaction:: openers:: properties:: range_tombstones:: reads:: refusals:: regressions repair:: seeks::
  space_reclamation:: updates:: value_log:: wal_ when_durable::)
# Few disk images per power cut: an emulator is slow.
power_cuts=(crash:: unsynced_bytes:: wal_sidecar::)
export TERRACE_CRASH_SEEDS=${TERRACE_CRASH_SEEDS:-1}

printf 'Rust %s; the library promises %s\n' "$(rustc --version | cut -d ' ' -f 2)" "$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)"
# The library without a C compiler, and without any codec.
CC=false cargo check --quiet -p terrace
cargo check --quiet -p terrace --no-default-features
cargo test --quiet -p terrace-format --no-default-features --lib compress
row "$(rustc -vV | sed -n 's/^host: //p')" "library, C, C++, Python, Go, command" "not run here: make test"

if has x86_64-unknown-linux-musl musl-gcc; then
  [ "$how" = sample ] || check x86_64-unknown-linux-musl
  run_libraries x86_64-unknown-linux-musl
  tests="formats, files, $storage"
  if [ "$how" = full ]; then
    exist x86_64-unknown-linux-musl -p terrace -- "${engine[@]}" "${power_cuts[@]}"
    run x86_64-unknown-linux-musl -p terrace -- "${engine[@]}" "${power_cuts[@]}"
    tests="$tests, engine, power cuts"
  fi
  row x86_64-unknown-linux-musl "$compiled" "$tests"
fi

if has aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc qemu-aarch64 /usr/aarch64-linux-gnu/lib/crt1.o; then
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
  [ "$how" = sample ] || check aarch64-unknown-linux-gnu
  # Tests of pages that cannot be read: the emulator handles their signal itself.
  no_signals=(--skip sigbus --skip mapped --skip distrust --skip failed_sync)
  run_libraries aarch64-unknown-linux-gnu "${no_signals[@]}"
  tests="formats, files, $storage (qemu)"
  if [ "$how" = full ]; then
    run aarch64-unknown-linux-gnu -p terrace -- "${engine[@]}" "${power_cuts[@]}"
    tests="formats, files, storage, engine, power cuts (qemu)"
  fi
  row aarch64-unknown-linux-gnu "$compiled" "$tests"
fi

if has s390x-unknown-linux-gnu s390x-linux-gnu-gcc qemu-s390x /usr/s390x-linux-gnu/lib/crt1.o; then
  export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc
  export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER="qemu-s390x -L /usr/s390x-linux-gnu"
  if [ "$how" = full ]; then
    check s390x-unknown-linux-gnu
    run s390x-unknown-linux-gnu -p terrace-format --
    row s390x-unknown-linux-gnu "$compiled (big-endian)" "formats, golden files (qemu)"
  else
    row s390x-unknown-linux-gnu "not in the sample" ""
  fi
fi

if has i686-unknown-linux-gnu i686-linux-gnu-gcc /usr/i686-linux-gnu/lib/crt1.o; then
  export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
  export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUNNER="/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib"
  [ "$how" = sample ] || check i686-unknown-linux-gnu
  run i686-unknown-linux-gnu -p terrace-vfs --
  tests="files"
  if [ "$how" = full ]; then
    # Directory tables, which need 64-bit Linux.
    no_folders=(--skip directory_tables --skip a_reference_to_a_missing_table --skip a_salvage_does_not_read)
    exist i686-unknown-linux-gnu "${libraries[@]}" -- "${no_folders[@]}"
    run_libraries i686-unknown-linux-gnu "${no_folders[@]}"
    tests="formats, files, storage"
  fi
  row i686-unknown-linux-gnu "$compiled" "$tests"
fi

if has x86_64-pc-windows-gnu x86_64-w64-mingw32-gcc; then
  check x86_64-pc-windows-gnu
  tests="none: no wine, or only the sample"
  if [ "$how" = full ] && command -v wine > /dev/null; then
    . scripts/platforms/wine.sh
    tests="formats, files, storage, engine, backups (wine)"
  fi
  row x86_64-pc-windows-gnu "library, C, command" "$tests"
fi

types=(aarch64-apple-darwin)
[ "$how" = sample ] || types+=(x86_64-apple-darwin x86_64-pc-windows-msvc)
for target in "${types[@]}"; do
  if has "$target"; then
    cargo check --quiet --target "$target" -p terrace -p terrace-backup
    row "$target" "library (types only)" "none"
  fi
done

printf '\n%-28s %-44s %s\n' platform compiled "tests run"
printf '%s\n' "${rows[@]}"
