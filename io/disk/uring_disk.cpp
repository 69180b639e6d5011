// io_uring: see uring_disk.hpp.
#include "io/disk/uring_disk.hpp"

#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

namespace troupe::io {

namespace {

constexpr unsigned most_files = 64;  ///< registered at once; more are used unregistered
constexpr uint64_t wake_id = 0;      ///< operations count from 1

std::string locked_memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(" (RLIMIT_MEMLOCK is {} KiB)", limit.rlim_cur >> 10);
}

}  // namespace

result<std::unique_ptr<uring_disk>> uring_disk::make(const disk_options& options) {
  std::unique_ptr<uring_disk> made(new uring_disk(options));
  TROUPE_CHECK(made->start(options));
  return made;
}

status uring_disk::start(const disk_options& options) {
  facts_.backend = "uring";
  wake_ = unique_fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!wake_) return error::system("eventfd", errno);
  auto entries = static_cast<unsigned>(options.depth) + 1;  // one for the watch on wake_
  int answer = ::io_uring_queue_init(entries, &uring_, 0);
  if (answer < 0)
    return error{errc::unavailable,
                 fmt::format("io_uring is refused: {}: using threads", std::strerror(-answer)),
                 "a kernel of 5.11 or later, kernel.io_uring_disabled=0, and a container profile "
                 "that allows it"};
  started_ = true;
  if ((uring_.features & IORING_FEAT_EXT_ARG) == 0)  // else a timed wait would use the ring itself
    return error{errc::unavailable, "io_uring of this kernel is older than 5.11: using threads"};
  answer = ::io_uring_register_files_sparse(&uring_, most_files);
  facts_.registered_files = answer == 0;
  if (answer == 0)
    for (unsigned i = most_files; i-- > 0;) free_places_.push_back(static_cast<int>(i));
  else
    note(fmt::format("files are not registered with io_uring: {}", std::strerror(-answer)));
  if (options.ring) register_ring(options.ring);
  return {};
}

void uring_disk::register_ring(const std::shared_ptr<slots>& ring) {
  std::vector<iovec> places;
  for (int i = 0; i < ring->count(); ++i)  // one a slot: no registered buffer is over 1 GiB
    places.push_back(
        {ring->arena().data() + static_cast<size_t>(i) * ring->slot_bytes(), ring->slot_bytes()});
  int answer =
      ::io_uring_register_buffers(&uring_, places.data(), static_cast<unsigned>(places.size()));
  facts_.registered_buffers = answer == 0;
  if (answer == 0)
    ring_ = ring;
  else
    note(fmt::format("slots are not registered with io_uring: {}{}", std::strerror(-answer),
                     locked_memory_limit()));  // UD-2
}

uring_disk::~uring_disk() {
  if (!started_) return;
  drain(kernel_patience);
  ::io_uring_queue_exit(&uring_);
}

result<disk::opened> uring_disk::raw_open(const path& name, const open_options& options) {
  TROUPE_TRY(got, system_disk::raw_open(name, options));
  if (free_places_.empty()) return got;
  int place = free_places_.back();
  if (::io_uring_register_files_update(&uring_, static_cast<unsigned>(place), &got.handle, 1) ==
      1) {
    free_places_.pop_back();
    places_[got.handle] = place;
  }
  return got;
}

void uring_disk::raw_close(int handle) {
  auto found = places_.find(handle);
  if (found != places_.end()) {
    int none = -1;
    int answer =
        ::io_uring_register_files_update(&uring_, static_cast<unsigned>(found->second), &none, 1);
    if (answer == 1) free_places_.push_back(found->second);
    places_.erase(found);
  }
  system_disk::raw_close(handle);
}

void uring_disk::raw_submit(const raw_request& request) {
  auto* entry = ::io_uring_get_sqe(&uring_);
  if (entry == nullptr) {
    ::io_uring_submit(&uring_);
    entry = ::io_uring_get_sqe(&uring_);
  }
  if (entry == nullptr) {
    failed_.push_back({request.id, -EAGAIN});
    return;
  }
  auto found = places_.find(request.handle);
  int file = found == places_.end() ? request.handle : found->second;
  auto bytes = static_cast<unsigned>(request.bytes.size());
  bool fixed = request.buffer_index >= 0 && ring_ && request.ring == ring_.get();
  auto* data = request.bytes.data();
  switch (request.op) {
    case disk_op::write:
      if (fixed)
        ::io_uring_prep_write_fixed(entry, file, data, bytes, request.offset, request.buffer_index);
      else
        ::io_uring_prep_write(entry, file, data, bytes, request.offset);
      if (request.through) entry->rw_flags = RWF_DSYNC;
      break;
    case disk_op::read:
      if (fixed)
        ::io_uring_prep_read_fixed(entry, file, data, bytes, request.offset, request.buffer_index);
      else
        ::io_uring_prep_read(entry, file, data, bytes, request.offset);
      break;
    case disk_op::fdatasync:
      ::io_uring_prep_fsync(entry, file, IORING_FSYNC_DATASYNC);
      break;
  }
  if (found != places_.end()) entry->flags |= IOSQE_FIXED_FILE;
  ::io_uring_sqe_set_data64(entry, request.id);
  ::io_uring_submit(&uring_);  // so that it runs now; what it refuses to take, the next wait offers
}

void uring_disk::wake() {
  uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));  // full means: woken already
}

/// Asks the ring to tell us when wake() was called (UD-1).
void uring_disk::watch_wake() {
  if (watching_) return;
  auto* entry = ::io_uring_get_sqe(&uring_);
  if (entry == nullptr) return;  // the next wait tries again
  ::io_uring_prep_poll_add(entry, wake_.get(), POLLIN);
  ::io_uring_sqe_set_data64(entry, wake_id);
  watching_ = true;
}

bool uring_disk::take_answers(std::vector<raw_answer>& answers) {
  bool woken = false;
  io_uring_cqe* done = nullptr;
  while (::io_uring_peek_cqe(&uring_, &done) == 0) {
    auto id = ::io_uring_cqe_get_data64(done);
    if (id == wake_id) {
      uint64_t count = 0;
      woken = ::read(wake_.get(), &count, sizeof count) > 0 || woken;
      watching_ = false;
    } else {
      answers.push_back({id, done->res});
    }
    ::io_uring_cqe_seen(&uring_, done);
  }
  return woken;
}

/// Gives the kernel what is prepared, and waits for one answer if `block`. False when it can do no
/// more than wait for a later call.
bool uring_disk::enter(bool block, nanoseconds until) {
  if (!block) return ::io_uring_submit(&uring_) >= 0;
  auto left = std::max(until - now(), nanoseconds{0});
  __kernel_timespec time{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  io_uring_cqe* first = nullptr;
  int answer = ::io_uring_submit_and_wait_timeout(&uring_, &first, 1, &time, nullptr);
  return answer >= 0 || answer == -ETIME || answer == -EINTR;
}

bool uring_disk::raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) {
  answers.insert(answers.end(), failed_.begin(), failed_.end());
  if (!std::exchange(failed_, {}).empty()) block = false;
  watch_wake();
  bool woken = take_answers(answers);
  if (woken || !answers.empty()) block = false;
  if (!enter(block, until) && block)
    std::this_thread::yield();  // the kernel is short of memory: the caller's timeout bounds this
  return take_answers(answers) || woken;
}

}  // namespace troupe::io
