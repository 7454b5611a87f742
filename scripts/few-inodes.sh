#!/bin/sh
# Writes many pairs to directory tables on an ext4 with few inodes. Each pair is a file while inodes
# are free. Prints the time and the inodes used, then checks the store and writes to it again.
#
#   scripts/few-inodes.sh [PAIRS]     as root; takes 6 GiB of a sparse file in ${TMPDIR:-/tmp}
set -eu
pairs=${1:-10000000}
terrace=$(realpath "${TERRACE:-target/release/terrace}")
work=$(mktemp -d)
trap 'umount "$work/mount" 2>/dev/null || :; rm -rf "$work"' EXIT
truncate -s 6G "$work/image"
mkfs.ext4 -q -F -N 20000 "$work/image"
mkdir "$work/mount"
mount -o loop "$work/image" "$work/mount"
store=$work/mount/store

# fill PAIRS VALUE OPTION: numbers from 0 on, in an order that makes tables overlap.
fill() {
    rm -rf "$store"
    echo "== $1 pairs, values of ${#2} bytes, $3"
    begun=$(date +%s)
    awk -v pairs="$1" -v value="$2" 'BEGIN { for (n = 0; n < pairs; n++) printf "key%010d\t%s\n", n * 7919 % pairs, value }' |
        "$terrace" load "$store" - --format escaped --preset delsm --option "$3"
    echo "$(($(date +%s) - begun)) s, $(stat -f -c '%c inodes, %d of them free' "$work/mount")"
    "$terrace" check "$store"
    "$terrace" get "$store" key0000000000 | cut -c -20
    "$terrace" put "$store" and-on 1 --preset delsm
}

fill "$pairs" value-of-16-byte min_value_file_size=0
fill "$pairs" value-of-16-byte min_value_file_size=1000
fill 40000 "$(head -c 20000 /dev/zero | tr '\0' v)" wal_size_limit=1MiB
umount "$work/mount"
e2fsck -fn "$work/image"
