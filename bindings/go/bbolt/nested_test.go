package bbolt

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt/errors"
)

// create makes a bucket in a bucket.
func create(t *testing.T, in *Bucket, name string) *Bucket {
	t.Helper()
	made, err := in.CreateBucket([]byte(name))
	must(t, err)
	return made
}

// A handle of a bucket that was moved refers to this bucket, and not to another one of its old name.
func TestAHandleFollowsItsBucket(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	must(t, db.Update(func(tx *Tx) error {
		a, b := create(t, tx.root, "a"), create(t, tx.root, "b")
		x := create(t, a, "x")
		must(t, x.SetSequence(7))
		must(t, a.MoveBucket([]byte("x"), b))
		other := create(t, a, "x")
		if next, err := x.NextSequence(); err != nil || next != 8 {
			t.Fatalf("sequence %d, %v", next, err)
		}
		if other.Sequence() != 0 || b.Bucket([]byte("x")).Sequence() != 8 {
			t.Fatal("the sequence of another bucket changed")
		}
		must(t, b.DeleteBucket([]byte("x")))
		create(t, b, "x")
		if _, err := x.NextSequence(); err != errors.ErrBucketNotFound {
			t.Fatalf("sequence of a deleted bucket: %v", err)
		}
		return nil
	}))
	db.mustCheck()
}

// No move puts a bucket into itself, whichever handles it uses.
func TestMovesMakeNoCycle(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	must(t, db.Update(func(tx *Tx) error {
		p, q := create(t, tx.root, "p"), create(t, tx.root, "q")
		inner := create(t, q, "inner")
		must(t, tx.MoveBucket([]byte("q"), nil, p))
		for _, to := range []*Bucket{q, inner, p} {
			if err := tx.MoveBucket([]byte("p"), nil, to); err != errors.ErrSameBuckets {
				t.Fatalf("%v", err)
			}
		}
		must(t, tx.MoveBucket([]byte("q"), p, nil))
		return tx.MoveBucket([]byte("p"), nil, inner)
	}))
	db.mustCheck()
}
