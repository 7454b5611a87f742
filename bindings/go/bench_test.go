package terrace

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/terrace-db/terrace/bindings/go/internal/percall"
)

// Pairs of the scanned store, each with a key of 16 bytes and a value of 32 bytes.
const scannedPairs = 1_000_000

// bigStore makes a compacted store, and returns its path.
func bigStore(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "store")
	db := got[*DB](b)(Open(path, nil))
	var batch Batch
	var key [16]byte
	for at := range scannedPairs {
		binary.BigEndian.PutUint64(key[:], uint64(at))
		batch.Put(key[:], append(key[:], key[:]...))
		if batch.Len() == 1000 {
			must(b, db.Write(&batch, nil))
			batch.Clear()
		}
	}
	must(b, db.CompactRange(Range{}))
	must(b, db.Close())
	return path
}

// Each scan must have the same sum.
func BenchmarkScanMillionPairs(b *testing.B) {
	path := bigStore(b)
	db := got[*DB](b)(OpenReadOnly(path, nil))
	defer db.Close()
	c, err := percall.Open(path)
	must(b, err)
	defer c.Close()
	want := c.ScanInC()
	forward := func(it *Iterator) bool { return it.Next() }
	backward := func(it *Iterator) bool { return it.Prev() }
	goScan := func(first, step func(*Iterator) bool) func() uint64 {
		return func() (sum uint64) {
			it := got[*Iterator](b)(db.NewIterator(nil, nil))
			defer it.Close()
			for ok := first(it); ok; ok = step(it) {
				sum += percall.Sum(it.Key()) + percall.Sum(it.Value())
			}
			must(b, it.Error())
			return sum
		}
	}
	for _, scan := range []struct {
		name string
		run  func() uint64
	}{
		{"c", c.ScanInC},
		{"go", goScan(forward, forward)},
		{"go-backward", goScan((*Iterator).Last, backward)},
		{"cgo-call-per-step", c.ScanPerPair},
	} {
		b.Run(scan.name, func(b *testing.B) {
			for b.Loop() {
				if sum := scan.run(); sum != want {
					b.Fatalf("sum %d, not %d", sum, want)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/scannedPairs, "ns/pair")
		})
	}
}

func BenchmarkCall(b *testing.B) {
	b.Run("c", func(b *testing.B) {
		for b.Loop() {
			percall.Call()
		}
	})
	db := inMemory(b, nil)
	b.Run("sequence", func(b *testing.B) {
		for b.Loop() {
			db.LastSequence()
		}
	})
}

func BenchmarkGet(b *testing.B) {
	path := bigStore(b)
	db := got[*DB](b)(OpenReadOnly(path, nil))
	defer db.Close()
	c, err := percall.Open(path)
	must(b, err)
	defer c.Close()
	const pass = 100_000 // lookups per iteration, of all keys in a scattered order
	var key [16]byte
	each := func(name string, run func() int) {
		b.Run(name, func(b *testing.B) {
			run() // fills the block cache
			b.ReportAllocs()
			for b.Loop() {
				if found := run(); found != pass {
					b.Fatalf("%d keys found, not %d", found, pass)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pass, "ns/key")
		})
	}
	each("c", func() int { return c.GetInC(pass, pass) })
	each("go", func() (found int) {
		for at := range pass {
			binary.BigEndian.PutUint64(key[:], uint64(at*7919%pass))
			if _, err := db.Get(key[:], nil); err == nil {
				found++
			}
		}
		return found
	})
	each("go-has", func() (found int) {
		for at := range pass {
			binary.BigEndian.PutUint64(key[:], uint64(at*7919%pass))
			if has, _ := db.Has(key[:], nil); has {
				found++
			}
		}
		return found
	})
}

func BenchmarkPut(b *testing.B) {
	key, value := make([]byte, 16), make([]byte, 100)
	run := func(name string, put func(db *DB)) {
		b.Run(name, func(b *testing.B) {
			db, _ := inDirectory(b, nil)
			b.ReportAllocs()
			for at := 0; b.Loop(); at++ {
				binary.BigEndian.PutUint64(key, uint64(at))
				put(db)
			}
		})
	}
	run("single", func(db *DB) { must(b, db.Put(key, value, nil)) })
	var batch Batch
	run("batch-of-100", func(db *DB) {
		if batch.Put(key, value); batch.Len() == 100 {
			must(b, db.Write(&batch, nil))
			batch.Clear()
		}
	})
}
