// A file system that knows no flags of renameat2, as NFS and Lustre: the kernel's answer is put in
// its place, for one thread.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <thread>

#include <doctest/doctest.h>

namespace troupe {

/// From now on renameat2 with flags answers EINVAL in this thread; false where that is refused.
inline bool forbid_rename_flags() {
  std::array<sock_filter, 6> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_renameat2, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[4])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Runs `what`, which checks nothing itself, on such a file system; false where the system does not
/// let the test make one.
template <class F>
bool without_rename_flags(F&& what) {
  bool could = false;
  std::thread([&] {
    could = forbid_rename_flags();
    if (could) what();
  }).join();
  if (!could) MESSAGE("SKIPPED: no seccomp filter may be set");
  return could;
}

}  // namespace troupe
