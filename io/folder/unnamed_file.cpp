// O_TMPFILE, or a name for a moment.
#include "io/folder/unnamed_file.hpp"

#include <fcntl.h>
#include <stdlib.h>

#include <cerrno>
#include <string>

#include <fmt/format.h>

#include "io/folder/owned.hpp"

namespace troupe::io {

result<unique_fd> unnamed_file(const std::filesystem::path& folder) {
  unique_fd unnamed(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (unnamed) return unnamed;
  const int why = errno;
  if (why != EOPNOTSUPP && why != EISDIR && why != EINVAL)
    return error::system(fmt::format("write in {}", folder.string()), why);
  auto name = (folder / ".troupe-unnamed-XXXXXX").string();
  unique_fd named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named) return error::system(fmt::format("write in {}", folder.string()), errno);
  TROUPE_CHECK(remove_own_file(name, named.get()));
  return named;
}

}  // namespace troupe::io
