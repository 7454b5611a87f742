#!/bin/sh
# Builds the wheel of the package terracedb and tests it as a user would have it: installed into a fresh environment.
#
#   scripts/python.sh [python3]     the interpreter to test with; the wheel serves CPython 3.9 and newer
#
# The wheel is left in target/wheels. Tools come from the package index: the versions below, and what they need.
set -eu
cd "$(dirname "$0")/.."
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
environment=$target/python
rm -rf "$environment" "$target/wheels"
"${1:-python3}" -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check maturin==1.16.0 mypy==2.4.1 pytest==9.2.0

cd bindings/python
"$environment/bin/maturin" build --release --strip --out "$target/wheels"
"$environment/bin/pip" install --quiet --disable-pip-version-check "$target"/wheels/terracedb-*.whl
"$environment/bin/pytest" --quiet
# The package's own sources must not stand in for what is installed.
cd "$environment"
bin/mypy --strict --no-error-summary "$OLDPWD/tests/uses_types.py"
ls "$target"/wheels
