// Fuzzes files that are unpacked as they are read: any bytes come to an end or are refused.
#include "io/formats/byte_stream.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/fuzz/must.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  constexpr size_t most = 1 << 20;
  const int fd = memfd_create("fuzz", 0);
  must(fd >= 0 && write(fd, data, size) == static_cast<ssize_t>(size), "a file in memory");
  auto stream = io::byte_stream::open("/proc/self/fd/" + std::to_string(fd));
  must(bool(stream), "it opens");
  std::string piece(4096, '\0');
  for (size_t all = 0; all < most;) {
    const auto n = stream->read(piece);
    if (!n) must(n.error().code == errc::bad_data, "bad data");
    if (!n || *n == 0) break;
    must(*n <= piece.size(), "no more than fits");
    all += *n;
  }
  close(fd);
  return 0;
}
