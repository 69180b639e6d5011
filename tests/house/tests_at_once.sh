#!/usr/bin/env bash
# How many tests ./troupe test runs at a time, by what a machine and its container have: the function of the script,
# taken out of it, with numbers of others in place of this machine's.
#
#   tests/house/tests_at_once.sh    1 where one differs
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
text=$(sed -n '/^tests_at_once() {/,/^}/p' "$root/troupe")
[ -n "$text" ] || { echo "./troupe has no tests_at_once()" >&2; exit 1; }
eval "$text"

gib=1048576  # in KiB
wrong=0
expect() {  # COUNT ARGUMENTS...
  local count=$1 said
  shift
  said=$(tests_at_once "$@")
  [ "$said" = "$count" ] || { echo "tests_at_once $*: $said, not $count" >&2; wrong=1; }
}

expect 4 2 $((13 * gib)) '' ''                                         # no group tells anything
expect 4 2 $((13 * gib)) 'max 100000' max                              # nor does one without limits
expect 4 64 $((200 * gib)) '200000 100000' max                         # two processors of 64
expect 4 64 $((200 * gib)) '150000 100000' max                         # and a part of one counts as one
expect 3 64 $((200 * gib)) '5000 100000' max
expect 4 2 $((13 * gib)) '6400000 100000' max                          # more than there are is no more
expect 3 8 $((3 * gib + 9)) '' ''                                      # what memory is free
expect 2 8 $((200 * gib)) '' $((2 * gib * 1024))                       # or may be taken
expect 1 8 9 '' ''
expect 1 8 $((200 * gib)) '' 0
expect 10 8 $((200 * gib)) '' 9223372036854771712                      # the kernel's own word for no limit, of old
expect 16 256 $((900 * gib)) '' ''
exit $wrong
