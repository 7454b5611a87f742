#!/bin/sh
# Builds the wheel of the package terracedb, installs it into a new virtual environment, and tests
# it there.
#
#   scripts/python.sh [python3]     the interpreter for the tests; the wheel works with CPython 3.9 and newer
#
# The wheel stays in target/wheels. The tools, in the versions below, and their dependencies come
# from the package index.
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
# Changes the directory, so that mypy checks the installed package and not the sources.
cd "$environment"
bin/mypy --strict --no-error-summary "$OLDPWD/tests/uses_types.py"
ls "$target"/wheels
