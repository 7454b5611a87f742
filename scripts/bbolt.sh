#!/bin/sh
# Tests the package bindings/go/bbolt, which has bbolt's interface: its own tests, then bbolt's tests
# of its public interface. bindings/go/bbolt/skipped.txt lists those that look into bbolt's pages.
#
#   scripts/bbolt.sh          libterrace must be below target/capi, as `make go` leaves it
#
# bbolt's tests and their dependencies come from the Go module proxy, and are copied to target/bbolt.
set -eu
cd "$(dirname "$0")/.."
version=v1.5.0
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
binding=$PWD/bindings/go
export CGO_ENABLED=1 PKG_CONFIG_PATH="$target/capi/lib/pkgconfig" LD_LIBRARY_PATH="$target/capi/lib"

cd "$binding/bbolt"
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "bbolt: gofmt -w would change: $unformatted" >&2; exit 1; }
go vet ./...
go test -count=1 -race ./...

theirs=$(cd / && GOFLAGS=-mod=mod go mod download -json "go.etcd.io/bbolt@$version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
[ -d "$theirs" ] || { echo "bbolt: go.etcd.io/bbolt $version cannot be fetched" >&2; exit 1; }
place=$target/bbolt
rm -rf "$place"
mkdir -p "$place/internal"
cp -r go.mod go.sum ./*.go errors "$place"
rm -f "$place"/*_test.go
cp -r "$theirs/internal/btesting" "$theirs/internal/common" "$place/internal"
grep -l '^package bbolt_test' "$theirs"/*_test.go | grep -v '/tx_check_test.go$' | xargs -I{} cp {} "$place"
chmod -R u+w "$place"
rm -f "$place"/internal/*/*_test.go
# A database is a directory, which the function that deletes one must be able to remove.
sed -i 's/os\.Remove(db\.Path())/os.RemoveAll(db.Path())/' "$place/internal/btesting/btesting.go"
skip=$(sed -n 's/^\(Test[A-Za-z0-9_]*\) .*/\1/p' skipped.txt | paste -sd'|')
cd "$place"
go mod edit -go 1.25.0 -replace "github.com/terrace-db/terrace/bindings/go=$binding" \
    -require github.com/stretchr/testify@v1.11.1 -require golang.org/x/sync@v0.20.0
go mod tidy >/dev/null 2>&1 || go mod tidy
go test -count=1 -timeout 15m -skip "^($skip)\$" ${BBOLT_SHORT:+-short} .
