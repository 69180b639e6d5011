// One range of one file each: see gradient_files.hpp.
#include "gpu/swap/gradient_files.hpp"

#include <algorithm>
#include <utility>

#include "io/file.hpp"

namespace troupe::gpu {

namespace {

using range = io::swap_io::range;

/// By pieces of that many bytes, the last of which may be shorter.
std::vector<uint32_t> sums_by_piece(std::span<const std::byte> memory, uint64_t piece_bytes) {
  std::vector<uint32_t> out;
  for (uint64_t first = 0; first < memory.size(); first += piece_bytes)
    out.push_back(
        io::crc32c(memory.subspan(first, std::min<uint64_t>(piece_bytes, memory.size() - first))));
  return out;
}

}  // namespace

status gradient_files::make(int chunk, placed_file where, const gradient_file& layout) {
  TROUPE_TRY(made, io_->create(where.name, layout.file_bytes()));
  where.id = made;
  at(chunk) = file{layout, std::move(where)};
  return {};
}

/// GRF-1
status gradient_files::expect(int chunk, content what) const {
  if (at(chunk)->has == what) return {};
  return gradient_not_written(chunk, what.passes, at(chunk)->has.passes);
}

/// GRF-3
status gradient_files::write(int chunk, content what, std::span<std::byte> frame, const put& to) {
  auto& f = *at(chunk);
  f.has = {};  // until all of it is there
  const auto offset = what.whole ? f.layout.slice_offset() : 0;
  const auto bytes = what.whole ? f.layout.slice_bytes() : f.layout.whole_bytes();
  const range one{f.on.id, offset, frame.first(bytes)};
  if (verify_) f.sums = sums_by_piece(one.memory, f.layout.piece_bytes());
  TROUPE_CHECK(to(f.on, one));
  f.has = what;
  return {};
}

status gradient_files::read(int chunk, content what, std::span<std::byte> frame,
                            const std::shared_ptr<void>& owner) {
  TROUPE_CHECK(expect(chunk, what));
  const auto& f = *at(chunk);
  const range one{f.on.id, 0, frame.first(f.layout.whole_bytes())};
  for (int tries = 0; tries < 2; ++tries) {
    TROUPE_CHECK(io_->read({&one, 1}, owner));
    if (!verify_ || sums_by_piece(one.memory, f.layout.piece_bytes()) == f.sums) return {};
  }
  return gradient_damaged(chunk, what.passes);
}

result<range> gradient_files::group(int chunk, content what, int group, std::byte* memory) const {
  TROUPE_CHECK(expect(chunk, what));
  const auto& f = *at(chunk);
  return range{f.on.id, f.layout.group_offset(group), {memory, f.layout.group_bytes(group)}};
}

status gradient_files::check(int chunk, int group, std::span<const std::byte> memory) const {
  const auto& f = *at(chunk);
  if (!verify_ || io::crc32c(memory) == f.sums[static_cast<size_t>(group)]) return {};
  return gradient_damaged(chunk, f.has.passes);
}

}  // namespace troupe::gpu
