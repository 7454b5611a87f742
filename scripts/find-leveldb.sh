# A part of scripts/cpp-test.sh and scripts/foreign.sh.

# find_leveldb DIRECTORY: sets $debian to a directory with LevelDB's header files, and $theirs to the directory of its library.
# If Debian's packages are not installed, fetches and unpacks them in DIRECTORY.
find_leveldb() {
    debian=/usr
    if [ ! -e $debian/include/leveldb/db.h ]; then
        debian=$1/usr
        [ -e "$debian/include/leveldb/db.h" ] || (
            mkdir -p "$1"
            cd "$1"
            apt-get -q download libleveldb-dev libleveldb1d libsnappy1v5
            for package in *.deb; do dpkg -x "$package" .; done
        )
    fi
    theirs=$(dirname "$(find "$debian/lib" -name libleveldb.so.1d | head -n 1)")
    # A later version has another layout.
    [ "$(readlink "$theirs/libleveldb.so.1d")" = libleveldb.so.1.23.0 ] || { echo "needs LevelDB 1.23" >&2; exit 2; }
}
