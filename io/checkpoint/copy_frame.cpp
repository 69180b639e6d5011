// Sixty-four bytes there and back.
#include "io/checkpoint/copy_frame.hpp"

#include <climits>
#include <cstring>

#include "io/file.hpp"

namespace troupe::io::checkpoint {

namespace {

constexpr uint64_t mark = 0x0a31'5950'4f43'5254;  // "TRCOPY1\n"
constexpr size_t summed = copy_frame::bytes - sizeof(uint32_t);

struct writer {
  std::byte* at;
  template <class T>
  void put(T value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
};

struct cursor {
  const std::byte* at;
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
};

error invalid(const char* what) {
  return {errc::bad_data, std::string("invalid frame of a copy in memory: ") + what};
}

}  // namespace

std::array<std::byte, copy_frame::bytes> encode(const copy_frame& f) {
  std::array<std::byte, copy_frame::bytes> out{};
  writer w{out.data()};
  w.put(mark);
  w.put(static_cast<uint32_t>(f.kind));
  w.put(static_cast<uint32_t>(f.rank));
  w.put(f.tag.epoch);
  w.put(f.tag.step);
  w.put(static_cast<uint32_t>(f.shape.layout.data));
  w.put(static_cast<uint32_t>(f.shape.layout.tensor));
  w.put(static_cast<uint32_t>(f.shape.layout.pipeline));
  w.put(f.shape.slot_bytes);
  w.put(f.shape.stream_bytes);
  w.put(uint32_t{0});
  w.put(crc32c(std::span(out).first(summed)));
  return out;
}

result<copy_frame> parse_copy_frame(std::span<const std::byte> bytes) {
  if (bytes.size() != copy_frame::bytes) return invalid("expected 64 bytes");
  cursor c{bytes.data()};
  if (c.get<uint64_t>() != mark) return invalid("it does not begin with its mark");
  if (cursor{bytes.data() + summed}.get<uint32_t>() != crc32c(bytes.first(summed)))
    return invalid("its checksum is wrong");
  copy_frame f;
  const auto kind = c.get<uint32_t>();
  if (kind < static_cast<uint32_t>(copy_frame_kind::put) ||
      kind > static_cast<uint32_t>(copy_frame_kind::share))
    return invalid("unknown kind");
  f.kind = static_cast<copy_frame_kind>(kind);
  const auto rank = c.get<uint32_t>();
  f.tag.epoch = c.get<uint64_t>();
  f.tag.step = c.get<uint64_t>();
  std::array<uint32_t, 3> ranks{c.get<uint32_t>(), c.get<uint32_t>(), c.get<uint32_t>()};
  f.shape.slot_bytes = c.get<uint32_t>();
  f.shape.stream_bytes = c.get<uint64_t>();
  if (c.get<uint32_t>() != 0) return invalid("padding that is not zero");
  for (const auto n : ranks)
    if (n > INT_MAX) return invalid("impossible layout");
  f.shape.layout = {static_cast<int>(ranks[0]), static_cast<int>(ranks[1]),
                    static_cast<int>(ranks[2])};
  if (!f.shape.layout.possible(INT_MAX) || !f.shape.layout.holds(rank))
    return invalid("impossible layout");
  f.rank = static_cast<int>(rank);
  if (f.shape.slot_bytes < 512 ||
      f.shape.stream_bytes / f.shape.slot_bytes >= copy_frame::most_slots)
    return invalid("impossible size");
  return f;
}

}  // namespace troupe::io::checkpoint
