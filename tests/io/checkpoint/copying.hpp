// A copier driven to its end, and what a copy is held against.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "io/checkpoint/copy.hpp"
#include "tests/io/checkpoint/sample.hpp"

namespace troupe::io::checkpoint::sample {

/// Copies `from` into `dir` of a disk; the complete folder.
inline result<fs::path> copy_by(disk& d, std::shared_ptr<const file_source> from,
                                const fs::path& dir) {
  TROUPE_TRY(copy, copier::begin(d, std::move(from), dir));
  for (uint64_t before = 0; !copy->finished();) {
    TROUPE_CHECK(copy->advance());
    const auto p = copy->progress();
    CHECK(p.written >= before);
    CHECK(p.durable <= p.written);
    CHECK(p.written <= p.total);
    before = p.written;
  }
  CHECK(copy->progress().durable == copy->progress().total);
  return copy->folder();
}

/// The same by a disk of its own.
inline result<fs::path> copy(const fs::path& from, const fs::path& dir) {
  auto d = open_disk({disk_backend::threads, 2, 2, {}});
  REQUIRE(d);
  return copy_by(**d, folder_source(local_files(), from, pages::drop), dir);
}

/// The names in a folder.
inline std::set<std::string> names_in(const fs::path& dir) {
  std::set<std::string> out;
  for (const auto& item : fs::directory_iterator(dir)) out.insert(item.path().filename().string());
  return out;
}

}  // namespace troupe::io::checkpoint::sample
