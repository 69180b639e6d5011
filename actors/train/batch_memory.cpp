// memfd, seals and maps.
#include "actors/train/batch_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cassert>
#include <cerrno>

#include <fmt/format.h>

namespace troupe::train {

namespace {

constexpr uint64_t max_bytes = uint64_t{1} << 36;

}  // namespace

batch_layout batch_of(const config::job& job) {
  return {job.train.batch, job.train.seq_len, job.data.reset_attention};
}

uint64_t batch_memory::slot_bytes_of(const batch_layout& what) noexcept {
  return static_cast<uint64_t>(what.arrays() * what.rows * what.seq) * sizeof(int32_t);
}

status batch_memory::check(const batch_layout& what, int64_t slots) {
  if (what.rows >= 1 && what.seq >= 1 && slots >= 1 &&
      slot_bytes_of(what) <= max_bytes / static_cast<uint64_t>(slots))
    return {};
  const uint64_t token_bytes = slot_bytes_of({1, 1, what.documents});
  return batch_too_large(
      what.rows, what.seq,
      max_bytes / token_bytes / static_cast<uint64_t>(std::max<int64_t>(1, slots)));
}

result<batch_memory> batch_memory::create(const batch_layout& what, int64_t slots) {
  TROUPE_CHECK(check(what, slots));
  const auto slot_bytes = slot_bytes_of(what);
  const auto bytes = slot_bytes * static_cast<uint64_t>(slots);
  TROUPE_TRY(booked, io::process_memory().book("batches", bytes));
  io::unique_fd fd(memfd_create("troupe-batches", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return error::system("make shared memory for batches", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return error::system("size the shared memory for batches", errno);
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)  // BTM-1
    return error::system("seal the shared memory for batches", errno);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return error::system("map the shared memory for batches", errno);
  batch_memory out(std::move(fd), data, slot_bytes, slots, what.documents);
  out.booking_ = std::move(booked);
  return out;
}

result<batch_memory> batch_memory::open(const std::string& path, uint64_t slot_bytes, int64_t slots,
                                        bool documents) {
  if (!path.starts_with("/proc/"))
    return error{errc::bad_data, fmt::format("invalid path of a loader's memory: {}", path)};
  io::unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return error::system(fmt::format("open the loader's memory {}", path), errno);
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0) return error::system("size of the loader's memory", errno);
  if (slots < 1 || slot_bytes == 0 || slot_bytes > max_bytes ||
      static_cast<uint64_t>(slots) > max_bytes / slot_bytes ||
      static_cast<uint64_t>(facts.st_size) != slot_bytes * static_cast<uint64_t>(slots))
    return error{errc::bad_data, "the loader's memory is not as large as it says"};
  void* data =
      mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return error::system("map the loader's memory", errno);
  return batch_memory(std::move(fd), data, slot_bytes, slots, documents);
}

batch_memory::batch_memory(batch_memory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      slot_bytes_(other.slot_bytes_),
      slots_(other.slots_),
      documents_(other.documents_),
      booking_(std::move(other.booking_)) {}

batch_memory::~batch_memory() {
  if (data_) munmap(data_, slot_bytes_ * static_cast<uint64_t>(slots_));
}

std::string batch_memory::path() const {
  return fmt::format("/proc/{}/fd/{}", getpid(), fd_.get());
}

int32_t* batch_memory::slot(int64_t index) noexcept {
  assert(index >= 0 && index < slots_);
  return reinterpret_cast<int32_t*>(static_cast<uint8_t*>(data_) +
                                    static_cast<uint64_t>(index) * slot_bytes_);
}

batch_view batch_memory::view(int64_t index) const noexcept {
  assert(index >= 0 && index < slots_);
  const auto* tokens = reinterpret_cast<const int32_t*>(static_cast<const uint8_t*>(data_) +
                                                        static_cast<uint64_t>(index) * slot_bytes_);
  const auto each = slot_bytes_ / sizeof(int32_t) /
                    static_cast<uint64_t>(batch_layout{0, 0, documents_}.arrays());
  if (!documents_) return {tokens, tokens + each};
  return {tokens, tokens + each, {tokens + 2 * each, tokens + 3 * each}};
}

}  // namespace troupe::train
