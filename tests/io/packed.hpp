// Bytes packed for tests, by the libraries that pack them elsewhere.
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <isa-l/igzip_lib.h>
#include <zstd.h>

namespace troupe {

inline std::string packed_by_gzip(std::string_view bytes) {
  std::string out(bytes.size() + bytes.size() / 2 + 1024, '\0');
  isal_zstream stream;
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.flush = NO_FLUSH;
  stream.next_in = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(bytes.data()));
  stream.avail_in = static_cast<uint32_t>(bytes.size());
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = static_cast<uint32_t>(out.size());
  REQUIRE(isal_deflate(&stream) == COMP_OK);
  REQUIRE(stream.internal_state.state == ZSTATE_END);
  out.resize(stream.total_out);
  return out;
}

inline std::string packed_by_zstd(std::string_view bytes, bool checksum = false) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  const auto n = ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  REQUIRE(ZSTD_isError(n) == 0);
  out.resize(n);
  return out;
}

}  // namespace troupe
