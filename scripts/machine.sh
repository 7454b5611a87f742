#!/usr/bin/env bash
# Fetches the kernel that `terrace crash --level machine` boots: the distribution's kernel for
# virtual machines. The package is unpacked, not installed. Works on Debian and Ubuntu on x86-64;
# apt verifies the packages. The kernel is written to $TERRACE_MACHINE, by default
# ~/.cache/terrace/machine.
set -euo pipefail
machine=${TERRACE_MACHINE:-${XDG_CACHE_HOME:-$HOME/.cache}/terrace/machine}
# Names of the packages with Debian's and Ubuntu's kernels for virtual machines.
names=(linux-image-cloud-amd64 linux-image-virtual)
# Modules for the disk, the serial port that carries commands, and ext4. Some kernels have them
# built in.
modules='virtio|virtio_ring|virtio_pci|virtio_pci_legacy_dev|virtio_pci_modern_dev|virtio_blk|virtio_console|crc16|mbcache|jbd2|ext4|crc32c_generic|libcrc32c'

if [ -s "$machine/kernel" ]; then
  echo "there is one already: $(cat "$machine/version")"
  exit 0
fi
for tool in apt-get apt-cache dpkg-deb; do
  command -v "$tool" > /dev/null || { echo "$tool is missing: put a kernel into $machine by hand, as crates/lab/src/crash/emulator.rs says" >&2; exit 2; }
done
package=
for name in "${names[@]}"; do
  package=$(apt-cache depends "$name" 2> /dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -z "$package" ] || break
done
[ -n "$package" ] || { echo "apt knows none of ${names[*]}; try: apt-get update" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# If root runs apt, apt downloads as user _apt, which has no write permission here; the option makes
# it download as root.
(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package")
dpkg-deb -x "$work"/*.deb "$work/unpacked"
mkdir -p "$machine/modules"
find "$work/unpacked" -regextype egrep -regex ".*/($modules)\.ko" -exec cp {} "$machine/modules/" \;
echo "$package $(dpkg-deb -f "$work"/*.deb Version)" > "$machine/version"
cp "$work/unpacked"/boot/vmlinuz-* "$machine/kernel.part"
mv "$machine/kernel.part" "$machine/kernel"
echo "fetched $(cat "$machine/version") into $machine"
