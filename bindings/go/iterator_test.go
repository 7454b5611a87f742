package terrace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sort"
	"testing"
)

// A model of an iterator: positions in a sorted list, -1 before the first pair.
type model struct {
	keys, values []string
	at           int
}

func (m *model) seek(key string) { m.at = sort.SearchStrings(m.keys, key) }

// check compares a move of the iterator with the model.
func (m *model) check(t *testing.T, it *Iterator, move string, moved bool) {
	t.Helper()
	valid := m.at >= 0 && m.at < len(m.keys)
	if moved != valid || it.Valid() != valid {
		t.Fatalf("%s: returned %v, valid %v, at %d of %d pairs; %v", move, moved, it.Valid(), m.at, len(m.keys), it.Error())
	}
	if valid && (string(it.Key()) != m.keys[m.at] || string(it.Value()) != m.values[m.at]) {
		t.Fatalf("%s: at %q, not at %q", move, it.Key(), m.keys[m.at])
	}
	if !valid && (it.Key() != nil || it.Value() != nil || it.Error() != nil) {
		t.Fatalf("%s: at no pair, but a key %q, %v", move, it.Key(), it.Error())
	}
}

// Random moves, with values from none to larger than any chunk, agree with the model.
func TestRandomMovesAgreeWithAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	db := inMemory(t, nil)
	all := model{}
	for at := range 3000 {
		value := make([]byte, random.IntN(40))
		if random.IntN(500) == 0 {
			value = make([]byte, random.IntN(3*largestChunk))
		}
		for at := range value {
			value[at] = byte(random.Uint32())
		}
		key := fmt.Sprintf("%05d", at*2)
		must(t, db.Put([]byte(key), value, nil))
		all.keys, all.values = append(all.keys, key), append(all.values, string(value))
	}
	must(t, db.Flush())
	for round := range 60 {
		keys, m := &Range{}, all
		if low, high := random.IntN(3000), random.IntN(3000); round > 0 {
			if round%3 != 0 {
				low, high = min(low, high), max(low, high) // otherwise the range may be empty
			}
			keys.Start, keys.Limit = fmt.Appendf(nil, "%05d", low*2), fmt.Appendf(nil, "%05d", high*2)
			m.keys, m.values = all.keys[low:max(low, high)], all.values[low:max(low, high)]
		}
		it := got[*Iterator](t)(db.NewIterator(keys, nil))
		m.at = -1
		for range 150 {
			randomMove(t, random, it, &m)
		}
		it.Close()
	}
}

// randomMove makes one jump, or several steps that mostly go the same way.
func randomMove(t *testing.T, random *rand.Rand, it *Iterator, m *model) {
	switch choice := random.IntN(10); {
	case choice == 0:
		m.at = min(0, len(m.keys)-1)
		if len(m.keys) == 0 {
			m.at = 0
		}
		m.check(t, it, "First", it.First())
	case choice == 1:
		m.at = len(m.keys) - 1
		m.check(t, it, "Last", it.Last())
	case choice < 4:
		key := fmt.Sprintf("%05d", random.IntN(6100))
		m.seek(key)
		m.check(t, it, "Seek "+key, it.Seek([]byte(key)))
	default:
		for forward := choice < 7; random.IntN(40) != 0; {
			if forward != (random.IntN(20) == 0) {
				m.at = min(m.at+1, len(m.keys))
				m.check(t, it, "Next", it.Next())
			} else {
				m.at = max(m.at-1, -1)
				m.check(t, it, "Prev", it.Prev())
			}
		}
	}
}

func TestAllAndBackward(t *testing.T) {
	db := inMemory(t, nil)
	fill(t, db, 5000)
	it := got[*Iterator](t)(db.NewIterator(Prefix([]byte("key0010")), nil))
	defer it.Close()
	var forward, backward []string
	for key := range it.All() {
		forward = append(forward, string(key))
	}
	for key := range it.Backward() {
		backward = append([]string{string(key)}, backward...)
	}
	must(t, it.Error())
	if len(forward) != 100 || forward[99] != "key001099" || !reflect.DeepEqual(forward, backward) {
		t.Fatalf("%q, %q", forward, backward)
	}
	for range it.All() {
		break
	}
	if string(it.Key()) != "key001000" {
		t.Fatalf("after a break at %q", it.Key())
	}
}

// An iterator does not see writes after its creation, although it reads the store in parts.
func TestAnIteratorSeesOneMoment(t *testing.T) {
	db := inMemory(t, nil)
	fill(t, db, 20_000)
	it := got[*Iterator](t)(db.NewIterator(nil, nil))
	must(t, db.DeleteRange(Range{}, nil))
	must(t, db.Put([]byte("key0000005"), nil, nil))
	must(t, db.Flush())
	if found := pairs(t, it, nil); len(found) != 20_000 {
		t.Fatalf("%d pairs", len(found))
	}
}

func TestPrefixEndsAtTheNextPrefix(t *testing.T) {
	for _, test := range []struct{ prefix, limit []byte }{
		{nil, nil},
		{[]byte("a"), []byte("b")},
		{[]byte("a\xff\xff"), []byte("b")},
		{[]byte("\xff\xff"), nil},
	} {
		keys := Prefix(test.prefix)
		if !bytes.Equal(keys.Start, test.prefix) || !bytes.Equal(keys.Limit, test.limit) || (keys.Limit == nil) != (test.limit == nil) {
			t.Errorf("Prefix(%q) = %q", test.prefix, *keys)
		}
	}
}
