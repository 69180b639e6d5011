#!/usr/bin/env bash
# Installs the Debian package in a bare Debian of this machine's release, made anew in a folder, and uses it as a
# person who has read docs/deploying.md: so that nothing it needs is there by chance.
#
#   tests/packages/bare_debian.sh troupe_0.1.0_amd64.deb [FOLDER]
#   tests/packages/bare_debian.sh build/release [FOLDER]     packs what was built there first
#
# Looked at: apt finds all that the package needs; the version; the quickstart trains five steps as an ordinary user,
# and writes from them; manual pages are read and completion is loaded; the package goes, and what it made stays.
#
# It needs root (chroot, mounts), debootstrap, a network to the archive that this machine's apt uses, and 2 GB in FOLDER
# (one in $TMPDIR). Mounts and processes are in namespaces of their own and end with it. Exit code: 0: all holds; 1: it
# does not; 64: no such package; 77: something is missing here.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

skip() { echo "SKIPPED: $*"; exit 77; }

# --- within the bare system -----------------------------------------------------------------------------------------

as_person() { runuser -u person -- env -C /home/person HOME=/home/person "$@"; }

is_there() { [ -s "$1" ] || { echo "FAILED: $1 is not installed" >&2; exit 1; }; }

try_package() {
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
  apt-get -q update
  # --- as docs/deploying.md has it
  apt-get -q -y install /troupe.deb
  apt-get -q -y install --no-install-recommends man-db >/dev/null
  useradd --create-home person
  as_person troupe --version
  # --- the quickstart, for five steps
  as_person troupe up /usr/share/troupe/configs/quickstart.toml \
    --set train.steps=5 --set train.warmup_steps=1 --set train.sample_tokens=20 | tee /steps
  grep -q '^step 5/5 ' /steps
  as_person troupe ckpt verify runs/quickstart/checkpoints
  as_person troupe generate --checkpoint runs/quickstart --prompt 'The ' --tokens 10
  # --- manual pages and completion
  man troupe-up >/tmp/page
  grep -q troupe /tmp/page
  as_person bash -c '. /usr/share/bash-completion/completions/troupe && complete -p troupe'
  is_there /usr/share/zsh/site-functions/_troupe
  is_there /usr/share/fish/vendor_completions.d/troupe.fish
  is_there /usr/share/troupe/configs/slurm/troupe.sbatch
  is_there /usr/share/doc/troupe/docs/deploying.md
  is_there /lib/systemd/system/troupe@.service
  # --- what the units need
  [ "$(stat -c '%U %a' /var/lib/troupe)" = 'troupe 750' ]
  [ "$(stat -c '%G %a' /etc/troupe)" = 'troupe 750' ]
  runuser -u troupe -- env -C /var/lib/troupe HOME=/var/lib/troupe troupe config check --no-files \
    /usr/share/troupe/configs/quickstart.toml
  # --- it goes, and leaves the user and what is his
  touch /etc/troupe/kept.toml
  apt-get -q -y purge troupe >/dev/null
  [ ! -e /usr/bin/troupe ]
  [ ! -e /usr/share/troupe ]
  [ ! -e /usr/share/man/man1/troupe.1 ]
  [ -e /etc/troupe/kept.toml ]
  getent passwd troupe >/dev/null
}

if [ "${1-}" = --within ]; then
  try_package
  exit 0
fi

# --- outside: the package, the bare system ---------------------------------------------------------------------------

[ $# -ge 1 ] || { echo "usage: $0 PACKAGE.deb|BUILD_FOLDER [FOLDER]" >&2; exit 64; }
what=$1
[ -e "$what" ] || { echo "$what: no such package or build folder" >&2; exit 64; }
[ "$(id -u)" = 0 ] || skip "a bare system is made by root"
command -v debootstrap >/dev/null || skip "debootstrap is missing: apt-get install debootstrap"
unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces of mounts and processes may be made here"
. /etc/os-release
[ "${ID:-}" = debian ] || skip "the package is for the Debian release that it was built on; this is ${ID:-another system}"

# The archive that apt uses here: what stands in its configuration, of this release alone.
sources=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT) $(LABEL)' 'Identifier: Packages' |
  awk -v of="$VERSION_CODENAME" 'index($2, of) == 1 && $4 ~ /^Debian/ && !seen[$0]++ { print "deb", $1, $2, $3 }')
mirror=$(awk -v of="$VERSION_CODENAME" '$3 == of && $4 == "main" { print $2; exit }' <<<"$sources")
[ -n "$mirror" ] || skip "apt has no index of $VERSION_CODENAME here: apt-get update"

folder=${2:-}
if [ -n "$folder" ]; then mkdir -p "$folder"; fi
work=$(mktemp -d -p "${folder:-${TMPDIR:-/tmp}}" bare-debian-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

if [ -d "$what" ]; then
  cpack --config "$(realpath "$what")/CPackConfig.cmake" -B "$work/packed" >"$work/cpack.log" ||
    { cat "$work/cpack.log" >&2; exit 1; }
  what=$(echo "$work"/packed/troupe_*.deb)
fi

echo "making a bare $PRETTY_NAME"
debootstrap --variant=minbase "$VERSION_CODENAME" "$work/tree" "$mirror" >"$work/debootstrap.log" 2>&1 ||
  { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
printf '%s\n' "$sources" >"$work/tree/etc/apt/sources.list"
cp /etc/resolv.conf "$work/tree/etc/resolv.conf"
cp "$what" "$work/tree/troupe.deb"
cp "$here/bare_debian.sh" "$work/tree/within.sh"
unshare --mount --pid --fork --kill-child bash -ec '
  mount --make-rprivate /
  mount -t proc proc "$1/proc"
  mount -t devpts devpts "$1/dev/pts"
  mount -t tmpfs shm "$1/dev/shm"
  exec env -i PATH="$PATH" TERM=dumb ${http_proxy:+http_proxy="$http_proxy"} chroot "$1" bash /within.sh --within' \
  bash "$work/tree" </dev/null
echo "all holds: $(basename "$what") on a bare $PRETTY_NAME"
