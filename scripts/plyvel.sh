#!/bin/sh
# Runs the test suite of the Python package plyvel with terracedb.plyvel in its place, and compares
# the two packages. The suite is that of plyvel's source distribution.
#
#   scripts/plyvel.sh [python3]
#
# The suite runs as the present user and, if that is root, again without root's capabilities,
# because one test requires a directory in which the user may not write. The tools and plyvel, in
# the versions below, come from the package index.
set -eu
cd "$(dirname "$0")/.."
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
environment=$target/plyvel
version=1.5.1
rm -rf "$environment"
"${1:-python3}" -m venv "$environment"
pip() { "$environment/bin/pip" "$@" --quiet --disable-pip-version-check; }
pip install maturin==1.16.0 pytest==9.2.0 "plyvel==$version"
pip download --no-deps --no-binary plyvel --dest "$environment" "plyvel==$version"
tar -xzf "$environment/plyvel-$version.tar.gz" -C "$environment"

(cd bindings/python && "$environment/bin/maturin" build --release --strip --out "$environment/wheels")
pip install "$environment"/wheels/terracedb-*.whl

suite=$environment/suite
mkdir "$suite"
sed 's/^import plyvel$/import terracedb.plyvel as plyvel/' "$environment/plyvel-$version/test/test_plyvel.py" > "$suite/test_plyvel.py"
grep -q '^import terracedb.plyvel as plyvel$' "$suite/test_plyvel.py"
pytest() { "$@" "$environment/bin/python" -m pytest --quiet -p no:cacheprovider --rootdir "$suite" "$tests"; }

tests=$suite/test_plyvel.py
if [ "$(id -u)" -eq 0 ]; then
  echo "plyvel's suite as root, without test_open_read_only_dir: root may write to every directory"
  pytest env PYTEST_ADDOPTS="--deselect=test_plyvel.py::test_open_read_only_dir"
  echo "plyvel's suite without root's capabilities"
  pytest setpriv --bounding-set=-all --inh-caps=-all
else
  pytest env
fi
echo "comparison with plyvel $version"
tests=bindings/python/peer pytest env
