# The CMake package `leveldb`: the target leveldb::leveldb, which is Terrace.
get_filename_component(leveldb_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET leveldb::leveldb)
  add_library(leveldb::leveldb SHARED IMPORTED)
  set_target_properties(leveldb::leveldb PROPERTIES
    IMPORTED_LOCATION "${leveldb_prefix}/lib/libleveldb.so.1d"
    IMPORTED_SONAME "libleveldb.so.1d"
    INTERFACE_INCLUDE_DIRECTORIES "${leveldb_prefix}/include")
endif()
unset(leveldb_prefix)
