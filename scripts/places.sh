#!/bin/sh
# The engine's suites that ask what must hold anywhere (`Place::any` in tests/common/kit.rs), once more elsewhere than in
# memory: on a device without a file system, and with half of a store on one. And with tables in bundles those that take LevelDB's numbers
# (`options` there), but for what is said of its own files, of their number, or of what they cost.
#
#   scripts/places.sh [PLACE...]     by default: device split bundled
set -eu
cd "$(dirname "$0")/.."
suites() { grep -lE "$1" crates/engine/tests/*.rs | xargs -n 1 basename -s .rs; }
tests() { sed 's/^/--test /'; }
own='durability|faults|group|kill|properties|range_deletes|reads|refusals|retained|space|whole_blocks'
anywhere=$(suites 'Place::any\(|kit::(anywhere|medium|store)\b' | tests)
numbers=$(suites '^mod kit;' | grep -vxE "$own" | tests)
[ -n "$anywhere" ] && [ -n "$numbers" ]
[ $# -gt 0 ] || set -- device split bundled
failed=
for place; do
    echo "== on $place"
    case $place in
        bundled) set -- TERRACE_TEST_TABLES "$numbers" ;;
        *) set -- TERRACE_TEST_PLACE "$anywhere" ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    env "$1=$place" cargo test --quiet --no-fail-fast -p terrace $2 || failed="$failed $place"
done
[ -z "$failed" ] || { echo "failed on:$failed" >&2; exit 1; }
