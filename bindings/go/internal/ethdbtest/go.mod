// A module of its own, so that users of the package terrace do not depend on go-ethereum.
module github.com/terrace-db/terrace/bindings/go/internal/ethdbtest

go 1.25.0

require (
	github.com/ethereum/go-ethereum v1.17.10
	github.com/terrace-db/terrace/bindings/go v0.0.0
)

replace github.com/terrace-db/terrace/bindings/go => ../..
