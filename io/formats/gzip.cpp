// By isa-l, which checks length and CRC of each member.
#include "io/formats/gzip.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <isa-l/igzip_lib.h>

#include "io/base/text.hpp"
#include "io/file.hpp"

namespace troupe::io {

namespace {

constexpr size_t piece_bytes = size_t{1} << 20;

}  // namespace

bool is_gzip(std::string_view bytes) noexcept {
  return bytes.starts_with("\x1f\x8b");
}

result<std::string> inflate_gzip(std::string_view bytes, size_t max_bytes, std::string_view name) {
  const auto fault = [&](size_t at, std::string_view what) {
    return error{errc::bad_data, fmt::format("{}: {} at byte {}", name, what, at),
                 "gzip -t FILE tells whether it is whole"};
  };
  if (!is_gzip(bytes)) return fault(0, "not gzip");
  if (bytes.size() > std::numeric_limits<uint32_t>::max()) return fault(0, "gzip beyond 4 GiB");
  std::string out;
  auto state = std::make_unique<inflate_state>();
  size_t at = 0;
  while (at < bytes.size()) {  // a member
    isal_inflate_init(state.get());
    state->crc_flag = ISAL_GZIP;
    // isa-l takes a mutable pointer but only reads.
    state->next_in = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(bytes.data()) + at);
    state->avail_in = static_cast<uint32_t>(bytes.size() - at);
    while (state->block_state != ISAL_BLOCK_FINISH) {
      const auto had = out.size();
      if (had > max_bytes)
        return error{errc::bad_data,
                     fmt::format("{}: its content is longer than {}", name, bytes_text(max_bytes))};
      const auto room = std::min(std::max(piece_bytes, had), max_bytes + 1 - had + piece_bytes);
      out.resize(had + std::min<size_t>(room, std::numeric_limits<uint32_t>::max()));
      state->next_out = reinterpret_cast<uint8_t*>(out.data()) + had;
      state->avail_out = static_cast<uint32_t>(out.size() - had);
      const int code = isal_inflate(state.get());
      out.resize(out.size() - state->avail_out);
      const auto read = bytes.size() - state->avail_in;
      if (code == ISAL_INCORRECT_CHECKSUM) return fault(read, "gzip with a wrong checksum");
      if (code < 0) return fault(read, "damaged gzip");
      if (out.size() == had && state->avail_in == 0 && state->block_state != ISAL_BLOCK_FINISH)
        return fault(read, "gzip cut short");
    }
    at = bytes.size() - state->avail_in;
    if (at < bytes.size() && !is_gzip(bytes.substr(at)))
      return fault(at, "bytes behind gzip's end");
  }
  if (out.size() > max_bytes)
    return error{errc::bad_data,
                 fmt::format("{}: its content is longer than {}", name, bytes_text(max_bytes))};
  return out;
}

result<std::string> read_maybe_gzip(const std::filesystem::path& path, size_t max_bytes) {
  TROUPE_TRY(bytes, read_file(path, max_bytes));
  if (!is_gzip(bytes)) return bytes;
  return inflate_gzip(bytes, max_bytes, path.string());
}

}  // namespace troupe::io
