// Any bytes as a predictor's file: refused, or asked about rows, one of which lacks everything,
// without touching a byte outside.
// The length and the checksum are mended first, so that what is changed reaches what lies within.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "gpu/predict/predictor.hpp"
#include "io/file.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  constexpr size_t head = 24, tail = 4;
  if (bytes.size() >= head + tail) {
    const uint64_t length = bytes.size() - head - tail;
    std::memcpy(bytes.data() + 16, &length, sizeof length);
    const uint32_t sum = io::crc32c(io::as_bytes(std::string_view(bytes).substr(0, head + length)));
    std::memcpy(bytes.data() + head + length, &sum, sizeof sum);
  }
  auto made = io::perf::decode(bytes, "fuzz");
  if (!made) {
    must(made.error().code == errc::bad_data, "TPM-1");
    return 0;
  }
  must(io::perf::decode(io::perf::encode(*made), "again").has_value(), "TPM-3");
  io::perf::perf_row row;
  row.numbers.assign(made->features.size(), 1.5);
  row.words.assign(made->features.size(), "x");
  const size_t outputs = made->outputs.size();
  gpu::predict::predictor p(std::move(*made));
  auto little = row;
  little.numbers.assign(little.numbers.size(), io::perf::absent);
  little.words.assign(little.words.size(), "");
  for (const auto& said : p.ask({&row, &little})) must(said.value.size() == outputs, "TPM-2");
  return 0;
}
