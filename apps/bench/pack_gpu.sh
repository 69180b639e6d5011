#!/usr/bin/env bash
# Packs the program, its tests for GPUs and every shared library they need into one tar, for a machine that has
# a GPU but not Debian's packages:
#
#   apps/bench/pack_gpu.sh [--build FOLDER] [--output FILE] [--without-nvidia] [PROGRAM ...]
#   ... there:  tar -xf troupe-gpu.tar && troupe-gpu/run             every GPU test and benchmark, one table
#               troupe-gpu/run bench ops --device cuda --model llama-1b    any command of the program
#
# --build FOLDER     the build to pack (default: build/release of this tree)
# --output FILE      default troupe-gpu.tar; its ending chooses the compression (.tar.gz, .tar.zst)
# --without-nvidia   leaves cuBLASLt and NCCL out, where the other machine has them; `run` finds them in
#                    /usr/local/cuda or LD_LIBRARY_PATH
# PROGRAM ...        default: bin/troupe and bin/test_*_device of the build
#
# Never packed: glibc (the other machine's is used, and may be newer, never older: `run` says so) and the NVIDIA
# driver's libraries (libcuda, libnvidia-ml), which belong to the kernel module there.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
build=$root/build/release
output=troupe-gpu.tar
nvidia=yes
programs=()
fail() { printf 'pack_gpu: %s\n' "$1" >&2; [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2; exit 66; }

while [ $# -gt 0 ]; do
  case $1 in
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --output) output=${2:?--output needs a file}; shift 2 ;;
    --without-nvidia) nvidia=no; shift ;;
    --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) printf 'pack_gpu: no option %s (--help)\n' "$1" >&2; exit 64 ;;
    *) programs+=("$1"); shift ;;
  esac
done
if [ ${#programs[@]} -eq 0 ]; then
  programs=("$build/bin/troupe")
  for test in "$build"/bin/test_*_device; do [ ! -x "$test" ] || programs+=("$test"); done
fi

stage=$(mktemp -d)
trap 'rm -rf -- "$stage"' EXIT
top=$stage/troupe-gpu
mkdir -p "$top/bin" "$top/lib"

# Parts of glibc, whose loader and libraries must come from one place, and of the driver.
not_ours='^(linux-vdso|ld-linux.*|libc|libm|libmvec|libdl|libpthread|librt|libresolv|libutil|libnsl|libanl|libnss_.*|libthread_db|libBrokenLocale|libcuda|libnvidia-.*|libnvcuvid)\.so'

# Copies what a program or library is linked with, all the way down (ldd follows the closure by itself).
pack_libraries_of() {
  local name arrow path
  while read -r name arrow path _; do
    [ "$arrow" = '=>' ] || continue
    [[ $name =~ $not_ours ]] && continue
    [ "$path" != not ] || fail "$1 needs $name, which is not here" "install the package that has it"
    [ -e "$top/lib/$name" ] || cp -L -- "$path" "$top/lib/$name"
  done < <(ldd "$1")
}

# The first of the names that is installed: by the linker's cache, LD_LIBRARY_PATH, or the toolkit's folders.
find_library() {
  local name folder path
  local -a folders
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
  for name; do
    for folder in "${folders[@]}" /usr/local/cuda/lib64 /usr/local/cuda/lib; do
      [ -z "$folder" ] || [ ! -e "$folder/$name" ] || { printf '%s\n' "$folder/$name"; return; }
    done
    path=$(ldconfig -p 2>/dev/null | awk -v name="$name" '$1 == name { print $NF; exit }')
    [ -z "$path" ] || { printf '%s\n' "$path"; return; }
  done
}

for program in "${programs[@]}"; do
  [ -x "$program" ] || fail "there is no program $program" "build it first: ./troupe build"
  cp -L -- "$program" "$top/bin/"
  pack_libraries_of "$program"
done
if [ $nvidia = yes ]; then  # loaded when first used, so ldd does not know them
  for names in 'libcublasLt.so.13 libcublasLt.so.12' 'libnccl.so.2'; do
    # shellcheck disable=SC2086  # two names
    path=$(find_library $names)
    [ -n "$path" ] || fail "${names%% *} is not here" "install it, or say --without-nvidia where the other machine has it"
    cp -L -- "$path" "$top/lib/"
    pack_libraries_of "$path"
  done
  for name in libnvrtc.so.13 libnvrtc-builtins.so.13.0; do  # cuBLASLt opens them for some kernels
    path=$(find_library "$name")
    [ -z "$path" ] || cp -L -- "$path" "$top/lib/"
  done
fi

# The newest glibc that anything here asks for.
needed=$(find "$top/bin" "$top/lib" -type f -exec grep -aohE 'GLIBC_2\.[0-9]+' {} + | sort -uV | tail -n 1)
cat >"$top/run" <<EOF
#!/bin/sh
# Runs the packed program with the packed libraries: \`run\` alone is \`run bench gpu\`.
needed=${needed#GLIBC_}
EOF
cat >>"$top/run" <<'EOF'
here=$(cd -- "$(dirname -- "$0")" && pwd) || exit 66
have=$(getconf GNU_LIBC_VERSION 2>/dev/null)
have=${have#glibc }
if [ -n "$have" ] && [ "${have%%.*}" = 2 ] && [ "${have#2.}" -lt "${needed#2.}" ]; then
  echo "run: this machine's glibc is $have, the program needs $needed" >&2
  echo "hint: pack it on a machine that is not newer than this one" >&2
  exit 69
fi
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/cuda/lib64
export LD_LIBRARY_PATH
[ $# -gt 0 ] || set -- bench gpu
exec "$here/bin/troupe" "$@"
EOF
chmod +x "$top/run"
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner -caf "$output" troupe-gpu
printf '%s: %s programs, %s libraries, %s; needs glibc %s or newer\n' "$output" "${#programs[@]}" \
  "$(find "$top/lib" -type f | wc -l)" "$(du -h -- "$output" | cut -f1)" "${needed#GLIBC_}"
