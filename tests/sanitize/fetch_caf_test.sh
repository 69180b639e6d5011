#!/usr/bin/env bash
# fetch_caf.sh asks the hosts that the machine's own apt sources name, and no other: with a stand-in for apt.
#
#   tests/sanitize/fetch_caf_test.sh
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/parts"
echo 'deb [arch=amd64] http://one.example/debian stable main' >"$work/sources.list"
printf 'Types: deb\nURIs: http://two.example/debian\nSuites: stable\n' >"$work/parts/two.sources"
echo 'deb http://off.example/debian stable main' >"$work/parts/off.list.disabled"
cat >"$work/bin/apt-config" <<STUB
echo "list='$work/sources.list'"
echo "parts='$work/parts/'"
STUB
cat >"$work/bin/apt-get" <<'STUB'
for word in "$@"; do
  case $word in
    Dir::Etc::sourceparts=*) parts=${word#*=} ;;
    update) cat "$parts"/* >"$SEEN" ;;
    source)
      mkdir -p actor-framework-0/libcaf_core
      tar -cf actor-framework_0.orig.tar.gz actor-framework-0
      ;;
  esac
done
STUB
chmod +x "$work/bin/"*
SEEN="$work/seen" PATH="$work/bin:$PATH" "$here/fetch_caf.sh" "$work/caf"

expected='deb-src [arch=amd64] http://one.example/debian stable main
Types: deb-src
URIs: http://two.example/debian
Suites: stable'
if [ "$(cat "$work/seen")" != "$expected" ]; then
  printf 'expected:\n%s\nfound:\n%s\n' "$expected" "$(cat "$work/seen")"
  exit 1
fi
[ -d "$work/caf/libcaf_core" ] || { echo "no libcaf_core"; exit 1; }
[ "$(ls "$work/caf")" = libcaf_core ] || { echo "something was left: $(ls "$work/caf")"; exit 1; }
