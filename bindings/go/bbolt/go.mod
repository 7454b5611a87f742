// The module path is bbolt's, so that a program can replace bbolt by this directory.
module go.etcd.io/bbolt

go 1.24

require (
	github.com/terrace-db/terrace/bindings/go v0.0.0
	golang.org/x/sys v0.29.0
)

replace github.com/terrace-db/terrace/bindings/go => ../
