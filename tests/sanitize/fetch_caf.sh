#!/usr/bin/env bash
# Fetches the source of Debian's CAF into FOLDER, by apt from where this machine gets its packages, but
# without root: ThreadSanitizer knows only the synchronisation that is compiled for it
# (messages/SanitizedCaf.cmake).
#
#   tests/sanitize/fetch_caf.sh FOLDER
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 64; }
mkdir -p "$1"
folder=$(cd -- "$1" && pwd)
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The machine's own sources, with source packages in the place of binary ones: for this call alone.
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/parts"
eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
for from in "$list" "${parts%/}"/*.list "${parts%/}"/*.sources; do
  [ -f "$from" ] || continue
  sed -E 's/^([[:space:]]*)deb([[:space:]])/\1deb-src\2/; s/^Types:.*/Types: deb-src/' "$from" \
    >"$work/parts/$(basename "$from")"
done
options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts"
         -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache"
         -o "APT::Sandbox::User=$(id -un)")
cd "$work"
apt-get "${options[@]}" update
apt-get "${options[@]}" source --download-only --tar-only actor-framework
tar -xf actor-framework_*.orig.tar.*
mv actor-framework-*/libcaf_* "$folder/"
