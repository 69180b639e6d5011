// Written once, opened through the process.
#include "actors/sim/tokens.hpp"

#include <vector>

#include <fmt/format.h>

#include "io/data/token_file.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"

namespace troupe::sim {

namespace {

constexpr uint32_t vocabulary = 256;
constexpr int32_t token_count = 4096;

result<io::unique_fd> make_file() {
  TROUPE_TRY(where,
             io::scratch_folder::make(std::filesystem::temp_directory_path(), "troupe-sim-"));
  const auto path = where.path() / "tokens.bin";
  TROUPE_TRY(writer, io::token_file_writer::create(path, vocabulary));
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < token_count; ++i) ids.push_back(i * 7 % static_cast<int32_t>(vocabulary));
  TROUPE_CHECK(writer.append(ids));
  TROUPE_CHECK(writer.finish());
  return io::open_read(path);
}

}  // namespace

result<std::filesystem::path> simulated_tokens() {
  static const auto file = make_file();
  if (!file) return file.error();
  return std::filesystem::path(fmt::format("/proc/self/fd/{}", file->get()));
}

}  // namespace troupe::sim
