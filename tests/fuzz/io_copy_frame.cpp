// Any bytes as a frame between an owner of copies and its keeper (selector 0), and any fields under
// a right checksum: what is read is written back, and its sizes can be counted.
#include <cstdint>
#include <cstring>
#include <span>

#include "io/checkpoint/copy_frame.hpp"
#include "io/file.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;
using namespace troupe::io::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::array<std::byte, copy_frame::bytes> frame{};
  auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 2 == 1) {
    std::memcpy(frame.data(), bytes.data(), std::min<size_t>(bytes.size(), 60));
    const auto sum = io::crc32c(std::span(frame).first(60));
    std::memcpy(frame.data() + 60, &sum, sizeof sum);
    bytes = frame;
  }
  const auto f = parse_copy_frame(bytes);
  if (!f) return 0;
  const auto again = encode(*f);
  must(std::memcmp(again.data(), bytes.data(), again.size()) == 0, "a frame is written as read");
  must(f->shape.layout.holds(f->rank), "a rank is one of the layout's");
  must(f->shape.slots() <= copy_frame::most_slots, "sums are far fewer than bytes");
  return 0;
}
