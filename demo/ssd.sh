#!/usr/bin/env bash
# `make cascade`: fills a store on ext4 on a preconditioned virtual drive, and prints the bytes that
# each layer writes for one byte of the user. Needs root, /dev/fuse and loop devices. Removes
# everything that it made. The argument is the drive's size (default 512MiB).
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "demo: mounting a file system takes root: sudo demo/ssd.sh" >&2; exit 1; }
cargo build --release --quiet -p terrace-cli
terrace=${CARGO_TARGET_DIR:-target}/release/terrace
work=$(mktemp -d)

end() {
  if [ -n "${server:-}" ] && kill -INT "$server" 2>/dev/null; then wait "$server" || true; fi
  "$terrace" ssd cleanup --work "$work" >/dev/null || true
  rm -rf "$work"
}
trap end EXIT
# Prints the first number with this name in the JSON on stdin.
number() { grep -o "\"$1\":[0-9]*" | head -n 1 | cut -d: -f2; }
times() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
mega() { awk -v a="$1" 'BEGIN { printf "%8.1f MB", a / 1e6 }'; }

echo "1. A drive of ${1:-512MiB} with 7 % over-provisioning, filled and overwritten to its steady state"
mkfifo "$work/said"
"$terrace" ssd serve --size "${1:-512MiB}" --state steady --work "$work" --json >"$work/said" 2>"$work/log" &
server=$!
read -r said <"$work/said" || { cat "$work/log" >&2; exit 1; }
field() { printf '%s' "$said" | grep -o "\"$1\":\"[^\"]*\"" | cut -d'"' -f4; }
node=$(field device) stats=$(field stats)

echo "2. ext4 on it ($node), made without a discard of the whole drive"
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$node"
mkdir "$work/mnt"
mount "$node" "$work/mnt"
before=$(cat "$stats")

echo "3. 200000 keys of 16 bytes with values of 400 in random order, by terrace bench"
"$terrace" bench --engine terrace --workload fillrandom --num 200000 --value-size 400 --write-buffer-size 4MiB \
  --rounds 1 --disturbed-at 1000000 --device "dir:$work/mnt" --json "$work/bench.jsonl" >/dev/null
sync -f "$work/mnt"
after=$(cat "$stats")

row=$(grep -o '"bytes":{.*' "$work/bench.jsonl" | tail -n 1)
[ "$(wc -l <"$work/bench.jsonl")" -eq 1 ] || { echo "demo: the bench ran more than once" >&2; exit 1; }
user=$(printf '%s' "$row" | number user) engine=$(printf '%s' "$row" | number engine)
host=$(($(printf '%s' "$after" | number host_bytes) - $(printf '%s' "$before" | number host_bytes)))
nand=$(($(printf '%s' "$after" | number nand_bytes) - $(printf '%s' "$before" | number nand_bytes)))
echo "4. The cascade"
echo "   user    $(mega "$user")"
echo "   engine  $(mega "$engine")   x $(times "$engine" "$user")  WAL, flushes, compactions"
echo "   drive   $(mega "$host")   x $(times "$host" "$engine")  ext4: its journal and metadata, less files deleted before writeback"
echo "   flash   $(mega "$nand")   x $(times "$nand" "$host")  the drive's garbage collection"
echo "   in all                x $(times "$nand" "$user")"
umount "$work/mnt"
rmdir "$work/mnt"
