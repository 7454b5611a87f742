# Runs tests of Windows programs under wine. Sourced by platforms.sh.
export WINEPREFIX=${WINEPREFIX:-$HOME/.cache/terrace/wine} WINEDEBUG=-all
library=$PWD/target/wine
mkdir -p "$library" "$WINEPREFIX"
x86_64-w64-mingw32-gcc -shared -o "$library/bcryptprimitives.dll" scripts/platforms/bcryptprimitives.c -ladvapi32
WINEPATH=$(winepath -w "$library" 2> /dev/null || printf 'Z:%s' "${library//\//\\}")
export WINEPATH CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine

skips=()
while read -r name; do skips+=(--skip "$name"); done < <(grep -v '^#' scripts/platforms/wine-skip.txt | grep .)

# Every name in the list must be that of a test.
windows=(-p terrace-format -p terrace-vfs -p terrace-storage -p terrace-backup -p terrace)
exist x86_64-pc-windows-gnu "${windows[@]}" -- "${engine[@]}" "${skips[@]}"

run x86_64-pc-windows-gnu -p terrace-format -p terrace-vfs -p terrace-storage -p terrace-backup -- "${skips[@]}"
run x86_64-pc-windows-gnu -p terrace -- "${engine[@]}" "${skips[@]}"

# The command, as a user would call it.
cargo build --quiet --target x86_64-pc-windows-gnu -p terrace-cli
place=$(mktemp -d)
terrace() { wine target/x86_64-pc-windows-gnu/debug/terrace.exe "$@" | tr -d '\r'; }
terrace put "$place/store" hello world
[ "$(terrace get "$place/store" hello)" = world ]
terrace check "$place/store"
terrace backup create "$place/store" "$place/backups"
# The same directory, with the command for this machine.
cargo build --quiet -p terrace-cli
[ "$(target/debug/terrace get "$place/store" hello)" = world ]
rm -rf "$place"
