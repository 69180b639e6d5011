// Blocks go round: taken at the front, given back behind the others with the event of their copy.
#include "gpu/model/pinned_upload.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace troupe::gpu {

namespace {

constexpr size_t page = 4096;

}  // namespace

void pinned_upload::release::operator()(void* p) const {
  ::operator delete (p, std::align_val_t{page});
}

result<std::unique_ptr<pinned_upload>> pinned_upload::make(stream& to, size_t block_bytes,
                                                           int blocks) {
  std::unique_ptr<pinned_upload> made(new pinned_upload(to, block_bytes));
  const size_t bytes = block_bytes * static_cast<size_t>(blocks);
  TROUPE_TRY(booked, io::process_memory().book("copies to a GPU", bytes));
  made->booking_ = std::move(booked);
  made->memory_.reset(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{page}, std::nothrow)));
  if (!made->memory_) return error(errc::no_memory, "no memory for copies to the device");
  TROUPE_TRY(pinned, to.owner().pin(made->memory_.get(), bytes));
  made->pinned_ = std::move(pinned);
  for (int i = 0; i < blocks; ++i)
    made->free_.push_back({made->memory_.get() + block_bytes * static_cast<size_t>(i), nullptr});
  return made;
}

pinned_upload::~pinned_upload() {
  for (const auto& b : free_)
    if (b.copied) b.copied->wait_on_host();
}

pinned_upload::block pinned_upload::take() {
  block b;
  {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [&] { return !free_.empty(); });
    b = std::move(free_.front());
    free_.pop_front();
  }
  if (b.copied) b.copied->wait_on_host();  // PIN-1
  return b;
}

void pinned_upload::put(void* destination, std::span<const std::byte> bytes) {
  auto* to = static_cast<std::byte*>(destination);
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), block_bytes_));
    block b = take();
    std::memcpy(b.data, piece.data(), piece.size());
    {
      const std::lock_guard lock(mutex_);
      to_.copy(to, b.data, piece.size());
      b.copied = to_.record();
      free_.push_back(std::move(b));
    }
    given_back_.notify_one();
    to += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

}  // namespace troupe::gpu
