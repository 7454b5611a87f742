// Source of the interface: LevelDB 1.23, helpers/memenv/memenv.h.
#ifndef TERRACE_LEVELDB_HELPERS_MEMENV_H_
#define TERRACE_LEVELDB_HELPERS_MEMENV_H_

#include "leveldb/export.h"

namespace leveldb {

class Env;

// Returns an environment whose files and stores are in memory; the caller deletes it after its
// stores. Threads and time are those of `base_env`, which must live as long.
//
// A store keeps its contents from one open to the next, as long as the environment lives. Its files
// are no files of the environment: GetChildren does not list them.
LEVELDB_EXPORT Env* NewMemEnv(Env* base_env);

}  // namespace leveldb

#endif
