#!/usr/bin/env bash
# Measures the cost of random reads of files of 1 KiB from a cold cache, without a store: each read
# opens, reads and closes one of FILES files, which are in folders of 1900. The process may use MIB
# MiB of memory, page cache included. 37 of 100 reads look for a file that does not exist: after N
# random puts over N keys, 37 % of the keys were never put, and a benchmark that reads random keys
# looks for them too. Uses a fresh ext4; needs root and memory control groups of version 1. Usage:
# cold-files.sh [FILES] [MIB]
set -euo pipefail
files=${1:-380000} mib=${2:-192}
folder=$(mktemp -d)
device=
group=/sys/fs/cgroup/memory/terrace-cold-$$
cleanup() {
  mountpoint -q "$folder/mount" && umount "$folder/mount"
  [ -z "$device" ] || losetup -d "$device"
  [ ! -d "$group" ] || rmdir "$group" || :
  rm -rf "$folder"
}
trap cleanup EXIT
mkdir "$folder/mount" "$group"
truncate -s 10G "$folder/image"
device=$(losetup -f --show --direct-io=on --sector-size 4096 "$folder/image")
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$device"
mount "$device" "$folder/mount"
cat >"$folder/files.py" <<'PY'
import os, random, sys, time
act, root, files, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
name = lambda n: f"{root}/{n // 1900:06}/{n * 2:016}.{n * 7919 % files}.{n * 2654435761 % 2**32:08x}"
if act == "fill":
    for n in range(files):
        if n % 1900 == 0:
            os.mkdir(f"{root}/{n // 1900:06}")
        file = os.open(name(n), os.O_CREAT | os.O_WRONLY)
        os.write(file, bytes(1024))
        os.close(file)
    os.sync()
else:
    random.seed(seed)
    start, reads = time.perf_counter(), 20000
    for _ in range(reads):
        number = random.randrange(files * 100 // 63)
        if number < files:
            file = os.open(name(number), os.O_RDONLY)
            assert len(os.read(file, 2048)) == 1024
            os.close(file)
    print(f"{(time.perf_counter() - start) / reads * 1e6:.1f} µs a read")
PY
python3 "$folder/files.py" fill "$folder/mount" "$files" 0
for seed in 1 2 3; do
  umount "$folder/mount"
  mount "$device" "$folder/mount"
  echo $((mib << 20)) >"$group/memory.limit_in_bytes"
  (echo "$BASHPID" >"$group/cgroup.procs" && exec python3 "$folder/files.py" read "$folder/mount" "$files" $seed)
done
