package terrace

import (
	"sync"
	"sync/atomic"
)

// A gate counts the calls that use a C handle, so that the handle is destroyed only when no call
// uses it and none can begin. The zero gate is shut.
//
// Lock order: the gate of a store, then of a column family, then of a snapshot or a transaction, then
// DB.mu.
type gate struct {
	calls sync.RWMutex // held shared by every call in the gate
	open  atomic.Bool  // changes only while calls is held exclusively
}

// enter admits a call, which must leave, or returns ErrClosed.
func (g *gate) enter() error {
	g.calls.RLock()
	if !g.open.Load() {
		g.calls.RUnlock()
		return ErrClosed
	}
	return nil
}

func (g *gate) leave() { g.calls.RUnlock() }

// shut waits for the admitted calls and admits no others. It returns false if the gate was shut
// before.
func (g *gate) shut() bool {
	g.calls.Lock()
	defer g.calls.Unlock()
	return g.open.Swap(false)
}
