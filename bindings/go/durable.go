package terrace

// #include "shim.h"
import "C"

// LastSequence returns the sequence number of the newest write that reads can see, or 0 before the
// first write. Each operation has a sequence number, one more than that of the operation before it.
func (db *DB) LastSequence() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.leave()
	return uint64(C.terrace_last_sequence(db.handle)), nil
}

// DurableSequence returns the durable watermark: every write up to this sequence number survives a
// power cut. In durability mode "none" it is always 0, because that mode makes no promise.
func (db *DB) DurableSequence() (uint64, error) {
	if err := db.enter(); err != nil {
		return 0, err
	}
	defer db.leave()
	return uint64(C.terrace_durable_sequence(db.handle)), nil
}

// WaitDurable makes every write up to the sequence number survive a power cut, with a sync if
// necessary, and then returns. To make many writes durable with one sync, pass it the result of
// [DB.LastSequence] after the last of them. It fails with [ErrInvalid] for a sequence number that
// has not been written. In durability mode "none" it returns immediately and promises nothing.
func (db *DB) WaitDurable(sequence uint64) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	return failure(C.go_wait_durable(db.handle, C.uint64_t(sequence)))
}
