package bbolt

import (
	"sync/atomic"
	"time"
)

// Stats are the statistics of a database. Those of pages and of the free list are 0.
type Stats struct {
	TxStats TxStats // sums of the ended transactions

	FreePageN     int
	PendingPageN  int
	FreeAlloc     int
	FreelistInuse int

	TxN     int // read-only transactions that began
	OpenTxN int // read-only transactions that have not ended
}

// Sub returns the difference to older statistics. The others than those of transactions are the
// present ones.
func (s *Stats) Sub(older *Stats) Stats {
	if older == nil {
		return *s
	}
	difference := *s
	difference.TxN -= older.TxN
	difference.TxStats = s.TxStats.Sub(&older.TxStats)
	return difference
}

// TxStats are the statistics of a transaction: cursors, commits and their time. The others are 0.
type TxStats struct {
	PageCount     int64
	PageAlloc     int64
	CursorCount   int64
	NodeCount     int64
	NodeDeref     int64
	Rebalance     int64
	RebalanceTime time.Duration
	Split         int64
	Spill         int64
	SpillTime     time.Duration
	Write         int64
	WriteTime     time.Duration
}

// Sub returns the difference to older statistics.
func (s *TxStats) Sub(older *TxStats) TxStats {
	return TxStats{
		PageCount:     s.GetPageCount() - older.GetPageCount(),
		PageAlloc:     s.GetPageAlloc() - older.GetPageAlloc(),
		CursorCount:   s.GetCursorCount() - older.GetCursorCount(),
		NodeCount:     s.GetNodeCount() - older.GetNodeCount(),
		NodeDeref:     s.GetNodeDeref() - older.GetNodeDeref(),
		Rebalance:     s.GetRebalance() - older.GetRebalance(),
		RebalanceTime: s.GetRebalanceTime() - older.GetRebalanceTime(),
		Split:         s.GetSplit() - older.GetSplit(),
		Spill:         s.GetSpill() - older.GetSpill(),
		SpillTime:     s.GetSpillTime() - older.GetSpillTime(),
		Write:         s.GetWrite() - older.GetWrite(),
		WriteTime:     s.GetWriteTime() - older.GetWriteTime(),
	}
}

func (s *TxStats) add(other *TxStats) {
	s.IncPageCount(other.GetPageCount())
	s.IncPageAlloc(other.GetPageAlloc())
	s.IncCursorCount(other.GetCursorCount())
	s.IncNodeCount(other.GetNodeCount())
	s.IncNodeDeref(other.GetNodeDeref())
	s.IncRebalance(other.GetRebalance())
	s.IncRebalanceTime(other.GetRebalanceTime())
	s.IncSplit(other.GetSplit())
	s.IncSpill(other.GetSpill())
	s.IncSpillTime(other.GetSpillTime())
	s.IncWrite(other.GetWrite())
	s.IncWriteTime(other.GetWriteTime())
}

// The functions below read and add atomically, and return the sum.

func (s *TxStats) GetPageCount() int64              { return atomic.LoadInt64(&s.PageCount) }
func (s *TxStats) IncPageCount(delta int64) int64   { return atomic.AddInt64(&s.PageCount, delta) }
func (s *TxStats) GetPageAlloc() int64              { return atomic.LoadInt64(&s.PageAlloc) }
func (s *TxStats) IncPageAlloc(delta int64) int64   { return atomic.AddInt64(&s.PageAlloc, delta) }
func (s *TxStats) GetCursorCount() int64            { return atomic.LoadInt64(&s.CursorCount) }
func (s *TxStats) IncCursorCount(delta int64) int64 { return atomic.AddInt64(&s.CursorCount, delta) }
func (s *TxStats) GetNodeCount() int64              { return atomic.LoadInt64(&s.NodeCount) }
func (s *TxStats) IncNodeCount(delta int64) int64   { return atomic.AddInt64(&s.NodeCount, delta) }
func (s *TxStats) GetNodeDeref() int64              { return atomic.LoadInt64(&s.NodeDeref) }
func (s *TxStats) IncNodeDeref(delta int64) int64   { return atomic.AddInt64(&s.NodeDeref, delta) }
func (s *TxStats) GetRebalance() int64              { return atomic.LoadInt64(&s.Rebalance) }
func (s *TxStats) IncRebalance(delta int64) int64   { return atomic.AddInt64(&s.Rebalance, delta) }
func (s *TxStats) GetRebalanceTime() time.Duration  { return loadTime(&s.RebalanceTime) }
func (s *TxStats) IncRebalanceTime(delta time.Duration) time.Duration {
	return addTime(&s.RebalanceTime, delta)
}
func (s *TxStats) GetSplit() int64             { return atomic.LoadInt64(&s.Split) }
func (s *TxStats) IncSplit(delta int64) int64  { return atomic.AddInt64(&s.Split, delta) }
func (s *TxStats) GetSpill() int64             { return atomic.LoadInt64(&s.Spill) }
func (s *TxStats) IncSpill(delta int64) int64  { return atomic.AddInt64(&s.Spill, delta) }
func (s *TxStats) GetSpillTime() time.Duration { return loadTime(&s.SpillTime) }
func (s *TxStats) IncSpillTime(delta time.Duration) time.Duration {
	return addTime(&s.SpillTime, delta)
}
func (s *TxStats) GetWrite() int64             { return atomic.LoadInt64(&s.Write) }
func (s *TxStats) IncWrite(delta int64) int64  { return atomic.AddInt64(&s.Write, delta) }
func (s *TxStats) GetWriteTime() time.Duration { return loadTime(&s.WriteTime) }
func (s *TxStats) IncWriteTime(delta time.Duration) time.Duration {
	return addTime(&s.WriteTime, delta)
}

func loadTime(at *time.Duration) time.Duration {
	return time.Duration(atomic.LoadInt64((*int64)(at)))
}

func addTime(at *time.Duration, delta time.Duration) time.Duration {
	return time.Duration(atomic.AddInt64((*int64)(at), int64(delta)))
}

// BucketStats are the statistics of a bucket and of all buckets in it. Those of pages are 0.
type BucketStats struct {
	BranchPageN     int
	BranchOverflowN int
	LeafPageN       int
	LeafOverflowN   int

	KeyN  int // pairs and nested buckets
	Depth int // 1

	BranchAlloc int
	BranchInuse int
	LeafAlloc   int
	LeafInuse   int // bytes of the records in an archive

	BucketN           int // buckets, with this one
	InlineBucketN     int
	InlineBucketInuse int
}

// Add adds the statistics of another bucket.
func (s *BucketStats) Add(other BucketStats) {
	s.BranchPageN += other.BranchPageN
	s.BranchOverflowN += other.BranchOverflowN
	s.LeafPageN += other.LeafPageN
	s.LeafOverflowN += other.LeafOverflowN
	s.KeyN += other.KeyN
	s.Depth = max(s.Depth, other.Depth)
	s.BranchAlloc += other.BranchAlloc
	s.BranchInuse += other.BranchInuse
	s.LeafAlloc += other.LeafAlloc
	s.LeafInuse += other.LeafInuse
	s.BucketN += other.BucketN
	s.InlineBucketN += other.InlineBucketN
	s.InlineBucketInuse += other.InlineBucketInuse
}

// Stats reads the whole bucket and counts what it has.
func (b *Bucket) Stats() BucketStats {
	s := BucketStats{BucketN: 1, Depth: 1}
	finder := newScan(b.tx, b.id)
	full, encoded := finder.next(entryKey(b.id, nil), true)
	for ; full != nil; full, encoded = finder.next(full, false) {
		e := b.tx.decode(full, encoded)
		s.KeyN++
		s.LeafInuse += int(recordBytes(full, e))
		if e.isBucket {
			s.Add(b.nested(full[entryHead:], e.child).Stats())
		}
	}
	return s
}
