package bbolt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// must fails the test if a call failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a database that the test closes at its end.
func open(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(path, 0o600, nil)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// A model has the pairs of a bucket, and the place of a cursor: a key that need not exist, or ""
// before the first move.
type model struct {
	pairs map[string]string
	place string
}

func (m *model) sorted() []string {
	keys := make([]string, 0, len(m.pairs))
	for key := range m.pairs {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// from returns the first key at or after a key, and the last key before it; "" for none.
func (m *model) from(key string) (at, before string) {
	keys := m.sorted()
	index, _ := slices.BinarySearch(keys, key)
	if index < len(keys) {
		at = keys[index]
	}
	if index > 0 {
		before = keys[index-1]
	}
	return at, before
}

// A cursor of a writable transaction, in which committed and new pairs alternate, moves as one over
// a sorted list. The transaction is sometimes committed or rolled back.
func TestCursorsSeeTheirTransaction(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	db := open(t, filepath.Join(t.TempDir(), "db"))
	committed := model{pairs: map[string]string{}}
	must(t, db.Update(func(tx *Tx) error {
		for _, name := range []string{"a", "b", "c"} { // the bucket has neighbours
			b, err := tx.CreateBucket([]byte(name))
			must(t, err)
			must(t, b.Put([]byte("500"), []byte("neighbour")))
		}
		committed.pairs["500"] = "neighbour"
		return nil
	}))
	for round := range 40 {
		tx, err := db.Begin(true)
		must(t, err)
		b := tx.Bucket([]byte("b"))
		m := model{pairs: map[string]string{}}
		for key, value := range committed.pairs {
			m.pairs[key] = value
		}
		for _, name := range []string{"a", "c"} { // changes before and after those of the bucket
			must(t, tx.Bucket([]byte(name)).Put(fmt.Appendf(nil, "%03d", round), []byte("neighbour")))
		}
		c := b.Cursor()
		for range 300 {
			edit(t, random, b, c, &m)
			move(t, random, c, &m)
		}
		if round%3 == 0 {
			must(t, tx.Rollback())
		} else {
			must(t, tx.Commit())
			committed.pairs = m.pairs
		}
		must(t, db.View(func(tx *Tx) error {
			found := map[string]string{}
			must(t, tx.Bucket([]byte("b")).ForEach(func(key, value []byte) error {
				found[string(key)] = string(value)
				return nil
			}))
			if fmt.Sprint(found) != fmt.Sprint(committed.pairs) {
				t.Fatalf("round %d: %d pairs, not %d", round, len(found), len(committed.pairs))
			}
			return nil
		}))
		db.mustCheck()
	}
}

// edit puts or deletes pairs, sometimes through the cursor.
func edit(t *testing.T, random *rand.Rand, b *Bucket, c *Cursor, m *model) {
	key := fmt.Sprintf("%03d", random.IntN(1000))
	switch random.IntN(5) {
	case 0, 1:
		value := fmt.Sprint(random.IntN(1 << 20))
		must(t, b.Put([]byte(key), []byte(value)))
		m.pairs[key] = value
	case 2:
		must(t, b.Delete([]byte(key)))
		delete(m.pairs, key)
	case 3:
		must(t, c.Delete())
		delete(m.pairs, m.place)
	}
	if value, exists := m.pairs[key]; (b.Get([]byte(key)) != nil) != exists || string(b.Get([]byte(key))) != value {
		t.Fatalf("Get(%s) = %q, not %q", key, b.Get([]byte(key)), value)
	}
}

// move moves the cursor, mostly to a neighbour.
func move(t *testing.T, random *rand.Rand, c *Cursor, m *model) {
	var key, value []byte
	var want string
	name := "Next"
	switch choice := random.IntN(20); {
	case choice == 0:
		name = "First"
		key, value = c.First()
		want, _ = m.from("")
	case choice == 1:
		name = "Last"
		key, value = c.Last()
		_, want = m.from("~")
	case choice == 2:
		m.place = fmt.Sprintf("%03d", random.IntN(1000))
		name = "Seek " + m.place
		key, value = c.Seek([]byte(m.place))
		want, _ = m.from(m.place)
	case choice%2 == 0 && m.place != "":
		name = "Prev"
		key, value = c.Prev()
		_, want = m.from(m.place)
	default:
		key, value = c.Next()
		if m.place != "" {
			want, _ = m.from(m.place + "\x00")
		}
	}
	if string(key) != want || (want != "" && !bytes.Equal(value, []byte(m.pairs[want]))) {
		t.Fatalf("%s from %q: %q = %q, not %q = %q", name, m.place, key, value, want, m.pairs[want])
	}
	if want != "" {
		m.place = want
	}
}

// Programs make cursors and never close them. A transaction closes the oldest iterators, and the
// cursors still move from where they are.
func TestManyCursors(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	must(t, db.Update(func(tx *Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		must(t, err)
		for at := range 100 {
			must(t, b.Put(fmt.Appendf(nil, "%03d", at), nil))
		}
		return nil
	}))
	must(t, db.View(func(tx *Tx) error {
		cursors := make([]*Cursor, 50)
		for at := range cursors {
			cursors[at] = tx.Bucket([]byte("b")).Cursor()
			cursors[at].Seek(fmt.Appendf(nil, "%03d", at))
		}
		for step := range 50 {
			for at, c := range cursors {
				if key, _ := c.Next(); string(key) != fmt.Sprintf("%03d", at+step+1) {
					if at+step+1 < 100 {
						t.Fatalf("cursor %d, step %d: %q", at, step, key)
					}
				}
			}
		}
		iterators := 0
		for _, c := range cursors {
			if c.scan.base != nil {
				iterators++
			}
		}
		if iterators > scansMax {
			t.Fatalf("%d iterators are open", iterators)
		}
		return nil
	}))
}

// A commit is durable when it returns; with NoSync it is durable after Sync.
func TestCommitsAreDurable(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	waits := func() bool {
		last, err := db.store.LastSequence()
		must(t, err)
		durable, err := db.store.DurableSequence()
		must(t, err)
		return durable < last
	}
	commit := func(name string) {
		must(t, db.Update(func(tx *Tx) error {
			_, err := tx.CreateBucket([]byte(name))
			return err
		}))
	}
	if commit("a"); waits() {
		t.Fatal("a commit is not durable")
	}
	db.NoSync = true
	if commit("b"); !waits() {
		t.Fatal("a commit with NoSync made a sync")
	}
	if must(t, db.Sync()); waits() {
		t.Fatal("a commit is not durable after Sync")
	}
}
