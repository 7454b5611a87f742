// LEVELDB_EXPORT marks the classes and functions that the library exports.
// Source of the interface: LevelDB 1.23, include/leveldb/export.h.
#ifndef TERRACE_LEVELDB_EXPORT_H_
#define TERRACE_LEVELDB_EXPORT_H_

#ifndef LEVELDB_EXPORT
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#endif

#endif
