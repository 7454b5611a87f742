#!/bin/sh
# Tests the Go package against libterrace, which `cargo build --release -p terrace-capi` has built.
#
#   scripts/go.sh            go vet; the tests with the race detector, with the strict checks of pointers
#                            that are passed to C, and with the static library; go-ethereum's tests of
#                            key-value stores
#   scripts/go.sh bench      benchmarks: scans and lookups beside loops in C
#
# The headers and libraries are installed below target/capi. go-ethereum comes from the Go module
# proxy; nothing else is fetched.
set -eu
cd "$(dirname "$0")/.."
command -v go >/dev/null || { echo "go: it is not installed; the package needs Go 1.24 or newer" >&2; exit 2; }
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
scripts/install-capi.sh "$target/capi"
export CGO_ENABLED=1 PKG_CONFIG_PATH="$target/capi/lib/pkgconfig" LD_LIBRARY_PATH="$target/capi/lib"

cd bindings/go
if [ "${1:-}" = bench ]; then
    exec go test -run '^$' -bench . -benchtime 2s .
fi
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "go: gofmt -w would change: $unformatted" >&2; exit 1; }
go vet ./...
go test -count=1 -race ./...
GOEXPERIMENT=cgocheck2 go test -count=1 .
# The static program must run where there is no shared library.
LD_LIBRARY_PATH= go test -count=1 -tags terrace_static .
cd internal/ethdbtest
go vet ./...
go test -count=1 -race ./...
