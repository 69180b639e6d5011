// gzip by isa-l, Zstandard by its own library.
#include "io/formats/byte_stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <isa-l/igzip_lib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "io/base/text.hpp"
#include "io/file.hpp"

namespace troupe::io {

namespace {

constexpr size_t stream_piece_bytes = size_t{1} << 18;

struct free_zstd {
  void operator()(ZSTD_DStream* it) const { ZSTD_freeDStream(it); }
};

}  // namespace

packing packing_of(std::string_view head) noexcept {
  return head.starts_with("\x1f\x8b")           ? packing::gzip
         : head.starts_with("\x28\xb5\x2f\xfd") ? packing::zstd
                                                : packing::none;
}

class byte_stream::state {
 public:
  state(unique_fd fd, std::filesystem::path path)
      : fd_(std::move(fd)), path_(std::move(path)), piece_(stream_piece_bytes) {}

  status begin() {
    TROUPE_CHECK(refill());
    packed_ = packing_of({piece_.data(), end_});
    if (packed_ == packing::gzip) begin_member();
    if (packed_ == packing::zstd) {
      zstd_.reset(ZSTD_createDStream());
      if (!zstd_) return error{errc::no_memory, "no memory to unpack " + path_.string()};
      ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, max_zstd_window_log);  // BYS-2
    }
    return {};
  }

  result<size_t> read(std::span<char> into) {
    if (into.empty()) return size_t{0};
    switch (packed_) {
      case packing::gzip:
        return inflate(into);
      case packing::zstd:
        return decompress(into);
      default:
        return copy(into);
    }
  }

  uint64_t file_bytes() const noexcept { return file_bytes_; }

 private:
  size_t left() const noexcept { return end_ - at_; }

  /// More of the file, where all of it that is here was used.
  status refill() {
    if (at_ < end_ || over_) return {};
    at_ = end_ = 0;
    for (;;) {
      const ssize_t n = ::read(fd_.get(), piece_.data(), piece_.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error::system("read " + path_.string(), errno);
      end_ = static_cast<size_t>(n);
      over_ = n == 0;
      file_bytes_ += end_;
      return {};
    }
  }

  result<size_t> copy(std::span<char> into) {
    TROUPE_CHECK(refill());
    const auto n = std::min(into.size(), left());
    std::copy_n(piece_.begin() + static_cast<ptrdiff_t>(at_), n, into.begin());
    at_ += n;
    return n;
  }

  void begin_member() {
    gzip_ = std::make_unique<inflate_state>();
    isal_inflate_init(gzip_.get());
    gzip_->crc_flag = ISAL_GZIP;
  }

  result<size_t> inflate(std::span<char> into) {
    for (;;) {
      TROUPE_CHECK(refill());
      if (gzip_->block_state == ISAL_BLOCK_FINISH) {
        if (left() == 0) return size_t{0};
        if (piece_[at_] != '\x1f') return fault("bytes behind gzip's end");
        begin_member();
      }
      gzip_->next_in = reinterpret_cast<uint8_t*>(piece_.data() + at_);
      gzip_->avail_in = static_cast<uint32_t>(left());
      gzip_->next_out = reinterpret_cast<uint8_t*>(into.data());
      gzip_->avail_out = static_cast<uint32_t>(std::min(into.size(), stream_piece_bytes));
      const auto room = gzip_->avail_out;
      const int code = isal_inflate(gzip_.get());
      at_ = end_ - gzip_->avail_in;
      if (code == ISAL_INCORRECT_CHECKSUM) return fault("gzip with a wrong checksum");
      if (code < 0) return fault("damaged gzip");
      const auto made = room - gzip_->avail_out;
      if (made > 0) return size_t{made};
      if (over_ && left() == 0 && gzip_->block_state != ISAL_BLOCK_FINISH)
        return fault("gzip cut short");
    }
  }

  result<size_t> decompress(std::span<char> into) {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    for (;;) {
      TROUPE_CHECK(refill());
      if (left() == 0 && frame_over_) return size_t{0};
      ZSTD_inBuffer in{piece_.data() + at_, left(), 0};
      const bool nothing_in = in.size == 0;
      const auto code = ZSTD_decompressStream(zstd_.get(), &out, &in);
      at_ += in.pos;
      if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
        return error{errc::bad_data,
                     fmt::format("{}: Zstandard with a window above {} MiB", path_.string(),
                                 1 << (max_zstd_window_log - 20)),
                     "unpack it first: `zstd -d --long=31 FILE`"};
      if (ZSTD_isError(code) != 0)
        return fault(fmt::format("damaged Zstandard ({})", ZSTD_getErrorName(code)));
      frame_over_ = code == 0;
      if (out.pos > 0) return out.pos;
      if (nothing_in && !frame_over_) return fault("Zstandard cut short");
    }
  }

  error fault(std::string_view what) const {
    return {errc::bad_data,
            fmt::format("{}: {} at byte {}", path_.string(), what, file_bytes_ - left()),
            packed_ == packing::gzip ? "`gzip -t FILE` tells whether it is whole"
                                     : "`zstd -t FILE` tells whether it is whole"};
  }

  unique_fd fd_;
  std::filesystem::path path_;
  packing packed_ = packing::none;
  std::vector<char> piece_;
  size_t at_ = 0, end_ = 0;  ///< of the piece, what was not used yet
  bool over_ = false;        ///< nothing more of the file comes
  uint64_t file_bytes_ = 0;
  std::unique_ptr<inflate_state> gzip_;
  std::unique_ptr<ZSTD_DStream, free_zstd> zstd_;
  bool frame_over_ = false;
};

byte_stream::byte_stream(std::unique_ptr<state> s) : state_(std::move(s)) {}
byte_stream::byte_stream(byte_stream&&) noexcept = default;
byte_stream& byte_stream::operator=(byte_stream&&) noexcept = default;
byte_stream::~byte_stream() = default;

result<byte_stream> byte_stream::open(const std::filesystem::path& path) {
  TROUPE_TRY(fd, open_read(path));
  auto s = std::make_unique<state>(std::move(fd), path);
  TROUPE_CHECK(s->begin());
  return byte_stream(std::move(s));
}

result<size_t> byte_stream::read(std::span<char> into) {
  return state_->read(into);
}

uint64_t byte_stream::file_bytes() const noexcept {
  return state_->file_bytes();
}

result<std::string> read_unpacked(const std::filesystem::path& path, size_t max_bytes) {
  TROUPE_TRY(stream, byte_stream::open(path));
  std::string bytes;
  std::string piece(stream_piece_bytes, '\0');
  for (;;) {
    TROUPE_TRY(n, stream.read(piece));
    if (n == 0) return bytes;
    if (n > max_bytes - bytes.size()) return content_too_long(path.string(), bytes_text(max_bytes));
    bytes.append(piece, 0, n);
  }
}

}  // namespace troupe::io
