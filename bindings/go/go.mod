module github.com/terrace-db/terrace/bindings/go

go 1.24
