// The name of leveldb/helpers/memenv.h in LevelDB's source tree.
#include "leveldb/helpers/memenv.h"
