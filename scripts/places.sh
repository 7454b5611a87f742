#!/bin/sh
# The engine's suites that ask what must hold anywhere (`Place::any` in tests/common/kit.rs), once more elsewhere than in
# memory: on a device without a file system, and with half of a store on one. And those that take LevelDB's numbers (`options` there),
# once more with tables in bundles, and with tables that are directories.
#
#   scripts/places.sh [PLACE...]     by default: device split bundled directory
set -eu
cd "$(dirname "$0")/.."
suites() { grep -lE "$1" crates/engine/tests/*.rs | xargs -n 1 basename -s .rs | sed 's/^/--test /'; }
anywhere=$(suites 'Place::any\(|kit::(anywhere|medium|store)\b')
numbers=$(suites '\b(in_files|options)\(&?\[|\b(in_files|options)\((kit::)?[A-Z]')
[ -n "$anywhere" ] && [ -n "$numbers" ]
[ $# -gt 0 ] || set -- device split bundled directory
failed=
for place; do
    echo "== on $place"
    case $place in
        bundled | directory) set -- TERRACE_TEST_TABLES "$numbers" ;;
        *) set -- TERRACE_TEST_PLACE "$anywhere" ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    env "$1=$place" cargo test --quiet --no-fail-fast -p terrace $2 || failed="$failed $place"
done
[ -z "$failed" ] || { echo "failed on:$failed" >&2; exit 1; }
