package ethdbtest

import (
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
)

func open(t testing.TB) func() ethdb.KeyValueStore {
	return func() ethdb.KeyValueStore {
		store, err := newStore()
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
}

func TestDatabaseSuite(t *testing.T) { dbtest.TestDatabaseSuite(t, open(t)) }

func BenchmarkDatabaseSuite(b *testing.B) { dbtest.BenchDatabaseSuite(b, open(b)) }
