#!/usr/bin/env bash
# Fetches the source of Debian's CAF into FOLDER, by apt but without root: ThreadSanitizer knows only
# the synchronisation that is compiled for it (messages/SanitizedCaf.cmake).
#
#   tests/sanitize/fetch_caf.sh FOLDER
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 64; }
mkdir -p "$1"
folder=$(cd -- "$1" && pwd)
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
. /etc/os-release
cat >"$work/debian.sources" <<SOURCES
Types: deb-src
URIs: http://deb.debian.org/debian
Suites: $VERSION_CODENAME
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
options=(-qq -o "Dir::Etc::sourcelist=$work/debian.sources" -o Dir::Etc::sourceparts=-
         -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache"
         -o "APT::Sandbox::User=$(id -un)")
cd "$work"
apt-get "${options[@]}" update
apt-get "${options[@]}" source --download-only --tar-only actor-framework
tar -xf actor-framework_*.orig.tar.*
mv actor-framework-*/libcaf_* "$folder/"
