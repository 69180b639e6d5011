// statfs, and a try with a file without a name.
#include "io/disk/drive_traits.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>

#include "io/file.hpp"

namespace troupe::io {

std::string_view network_name(int64_t magic) {
  constexpr struct {
    uint32_t magic;
    std::string_view name;
  } known[] = {
      {0x6969, "NFS"},        {0x517B, "SMB"},      {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB2"},
      {0x0BD00BD0, "Lustre"}, {0x00C36400, "Ceph"}, {0x65735546, "FUSE"},   {0x01021997, "9P"},
      {0x5346414F, "AFS"},    {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}, {0x01161970, "GFS2"},
      {0x7461636F, "OCFS2"},  {0x73757245, "Coda"}, {0x013111A8, "IBRIX"},  {0xAAD7AAEA, "PanFS"}};
  for (const auto& k : known)
    if (k.magic == static_cast<uint32_t>(magic)) return k.name;
  return {};
}

std::string_view network_of(int descriptor) {
  struct statfs facts {};
  return ::fstatfs(descriptor, &facts) == 0 ? network_name(facts.f_type) : std::string_view();
}

drive_traits traits_of(const std::filesystem::path& folder) {
  constexpr off_t some = 4096;
  drive_traits out;
  const unique_fd at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at) out.network = network_of(at.get());
  const unique_fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return out;
  const auto self = fmt::format("/proc/self/fd/{}", file.get());
  const unique_fd direct(::open(self.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  out.direct = direct || errno != EINVAL;
  out.reserves =
      ::fallocate(file.get(), 0, 0, some) == 0 || (errno != EOPNOTSUPP && errno != ENOSYS);
  return out;
}

std::vector<std::string> remarks_on(const std::filesystem::path& folder, const drive_traits& t) {
  std::vector<std::string> out;
  if (!t.network.empty())
    out.push_back(
        fmt::format("{} is on a network file system ({}): steps take as long as it does, "
                    "and a server that is away stops them; a local drive is meant",
                    folder.string(), t.network));
  if (!t.direct)
    out.push_back(
        fmt::format("the file system of {} has no O_DIRECT: bytes go through the page "
                    "cache, and are written through and dropped there, which is slower",
                    folder.string()));
  if (!t.reserves)
    out.push_back(
        fmt::format("the file system of {} reserves no space (fallocate): a step can "
                    "find the drive full",
                    folder.string()));
  return out;
}

}  // namespace troupe::io
