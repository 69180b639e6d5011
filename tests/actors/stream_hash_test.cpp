// Hashes of memory that is longer than what it goes through.
#include "actors/train/stream_hash.hpp"

#include <doctest/doctest.h>
#include <xxhash.h>

#include "gpu/device.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::train;

TEST_CASE("hashes by a stream: of any length, one after the other, as of the whole at once") {
  constexpr size_t piece = 4096;
  const auto device = gpu::make_host_device(1);
  auto stream = device->make_stream({"compute", 1});
  REQUIRE(stream);
  auto hash = stream_hash::make(*device, piece);
  REQUIRE(hash);
  std::vector<std::byte> bytes(3 * piece + 5);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i + i / 7);
  const size_t lengths[] = {0, 1, piece - 1, piece, piece + 1, bytes.size()};
  for (const auto n : lengths) (*hash)->enqueue(**stream, bytes.data(), n);
  REQUIRE((*stream)->synchronize());
  const auto told = (*hash)->take();
  REQUIRE(told.size() == std::size(lengths));
  for (size_t i = 0; i < told.size(); ++i) CHECK(told[i] == XXH64(bytes.data(), lengths[i], 0));
  CHECK((*hash)->take().empty());
}
