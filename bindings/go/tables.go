package terrace

// #include "shim_transactions.h"
import "C"

import "unsafe"

// Ingest adds the entries of SSTables, atomically and durably, as newer than all other entries. The
// files stay. The result is the number of puts and deletes.
func (s *space) Ingest(paths ...string) (uint64, error) {
	names := make([]*C.char, len(paths))
	for at, path := range paths {
		name, err := cString("path", path)
		if err != nil {
			return 0, err
		}
		defer freeString(name)
		names[at] = name
	}
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	added := C.go_ingest(s.db.handle, s.family.c(), unsafe.SliceData(names), C.size_t(len(names)))
	return uint64(added.number), failure(added.error)
}

// Export writes the pairs of the range, or all if it is nil, as SSTables 000001.ldb and so on into an
// existing directory. It replaces no file. The result is the number of files.
func (s *space) Export(directory string, keys *Range) (int, error) {
	name, err := cString("path", directory)
	if err != nil {
		return 0, err
	}
	defer freeString(name)
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if keys == nil {
		keys = &Range{}
	}
	files := C.go_export(s.db.handle, s.family.c(), s.how(nil), name,
		bytesC(keys.Start), lengthC(keys.Start), bytesC(keys.Limit), lengthC(keys.Limit))
	return int(files.number), failure(files.error)
}
