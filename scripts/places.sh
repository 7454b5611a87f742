#!/bin/sh
# Runs suites of the engine again with other storage, tables and option values than the defaults of
# the tests. Suites that work on any storage (`Place::any` in tests/it/common/kit.rs) run on a raw
# device and on split storage (half of the store in a directory, half on a raw device) instead of in
# memory. Suites that use LevelDB's option values (`options` in kit.rs) run with bundles and with
# directory tables. In addition, the latter run with preset `default`, and the former on a raw
# device with preset `device`.
#
#   scripts/places.sh [PLACE...]     by default: device split bundled directory preset-default preset-device
#   scripts/places.sh sample         a few of these suites, on a device and with bundles
set -eu
cd "$(dirname "$0")/.."
find_suites() { (cd crates/engine/tests/it && grep -lE "$1" *.rs | sed 's/\.rs$/::/'); }
anywhere=$(find_suites 'Place::any\(|kit::(anywhere|medium|store)\b')
numbers=$(find_suites '\b(in_files|options)\(&?\[|\b(in_files|options)\((kit::)?[A-Z]')
[ -n "$anywhere" ] && [ -n "$numbers" ]
[ $# -gt 0 ] || set -- device split bundled directory preset-default preset-device
if [ "$1" = sample ]; then
    anywhere='durability:: failed_syncs:: range_tombstones:: reads:: value_log:: wal_corruption::' numbers='ingest:: manual_compaction:: space::'
    set -- device bundled
fi
# The tests as `make test` builds them. With `-p terrace` alone, cargo would build all crates again
# with fewer features.
tests=$(cargo test --quiet --workspace --no-run --message-format json |
    sed -n 's|.*crates/engine/tests/it/main.rs.*"executable":"\([^"]*\)".*|\1|p')
[ -x "$tests" ]
cd crates/engine
failed=
for place; do
    echo "== on $place"
    case $place in
        bundled | directory) suites=$numbers variables="TERRACE_TEST_TABLES=$place" ;;
        preset-default) suites=$numbers variables="TERRACE_TEST_TABLES=bundled TERRACE_TEST_PRESET=default" ;;
        preset-device) suites=$anywhere variables="TERRACE_TEST_PLACE=device TERRACE_TEST_PRESET=device" ;;
        *) suites=$anywhere variables="TERRACE_TEST_PLACE=$place" ;;
    esac
    # shellcheck disable=SC2086 # lists of words
    env $variables "$tests" --quiet $suites || failed="$failed $place"
done
[ -z "$failed" ] || { echo "failed on:$failed" >&2; exit 1; }
