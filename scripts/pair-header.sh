#!/usr/bin/env bash
# Measures the bytes written to the device if each pair is a file, for three places of the pair's
# header: in the name of the file, in the file before the value, or in an extended attribute of the
# inode. Uses a fresh ext4 for each; needs root. Usage: pair-header.sh [PAIRS] [VALUE_BYTES]
set -euo pipefail
pairs=${1:-10000} value_bytes=${2:-4096}
folder=$(mktemp -d)
device=
cleanup() {
  mountpoint -q "$folder/mount" && umount "$folder/mount"
  [ -z "$device" ] || losetup -d "$device"
  rm -rf "$folder"
}
trap cleanup EXIT
mkdir "$folder/mount"

# Prints the device bytes for each pair, and the blocks of all files.
try() {
  local form=$1 before after name
  truncate -s 1G "$folder/image"
  device=$(losetup -f --show "$folder/image")
  name=${device#/dev/}
  mkfs.ext4 -q -N $((pairs + 1000)) -E lazy_itable_init=0,lazy_journal_init=0 "$device"
  mount "$device" "$folder/mount"
  sync -f "$folder/mount"
  before=$(awk '{ print $7 }' "/sys/block/$name/stat")
  python3 - "$folder/mount" "$form" "$pairs" "$value_bytes" <<'PY'
import os, sys
root, form, pairs, value = sys.argv[1], sys.argv[2], int(sys.argv[3]), bytes(int(sys.argv[4]))
header = bytes(12)  # operation, sequence, checksum
for number in range(pairs):
    if number % 1000 == 0:
        folder = f"{root}/{number // 1000}"
        os.mkdir(folder)
    name = f"{folder}/{number:016}" + (f".{number}.00000000" if form == "name" else "")
    file = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    os.write(file, header + value if form == "file" else value)
    if form == "attribute":
        os.setxattr(file, "user.h", header)
    os.close(file)
PY
  sync -f "$folder/mount"
  after=$(awk '{ print $7 }' "/sys/block/$name/stat")
  printf '%-10s %6d B of device for a pair of %d B, %d KiB of files\n' "$form" $(((after - before) * 512 / pairs)) \
    "$value_bytes" "$(du -sk "$folder/mount" | cut -f1)"
  umount "$folder/mount"
  losetup -d "$device"
  device=
}
for form in name file attribute; do try "$form"; done
