#!/bin/sh
# The engine's suites that ask what must hold anywhere (`Place::any` in tests/common/kit.rs), once more elsewhere than in
# memory: on a device without a file system, and with half of a store on one.
#
#   scripts/places.sh [PLACE...]     by default: device split
set -eu
cd "$(dirname "$0")/.."
suites=$(grep -lE 'Place::any\(|kit::(anywhere|medium|store)\b' crates/engine/tests/*.rs | xargs -n 1 basename -s .rs | sed 's/^/--test /')
[ -n "$suites" ]
[ $# -gt 0 ] || set -- device split
failed=
for place; do
    echo "== on $place"
    # shellcheck disable=SC2086 # a list of words
    TERRACE_TEST_PLACE=$place cargo test --quiet --no-fail-fast -p terrace $suites || failed="$failed $place"
done
[ -z "$failed" ] || { echo "failed on:$failed" >&2; exit 1; }
