// What every disk promises, over raw requests: see disk.hpp.
#include "io/disk/disk.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "io/base/mapped_pages.hpp"
#include "io/base/poison.hpp"
#include "io/disk/buffer_size.hpp"

namespace troupe::io {

std::string_view to_string(disk_op op) noexcept {
  switch (op) {
    case disk_op::write:
      return "write";
    case disk_op::read:
      return "read";
    case disk_op::fdatasync:
      return "fdatasync";
  }
  return "?";
}

error disk_error(std::string_view doing, const std::filesystem::path& name, int errno_value) {
  auto e = error::system(fmt::format("{} {}", doing, name.string()), errno_value);
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
      e.hint = "free space there, keep fewer checkpoints, or name another folder";
      break;
    case EFBIG:
      e.hint = "raise the limit on the size of a file (ulimit -f)";
      break;
    case EIO:
      e.hint = "the disk or the way to it is failing: see dmesg";
      break;
    case EROFS:
      e.hint = "the file system is read-only, by its mount or after errors: see dmesg";
      break;
    case EINVAL:
      e.hint = "the file system may refuse O_DIRECT of this size or this operation";
      break;
    case EMFILE:
      e.hint = "raise the limit on open files (ulimit -n)";
      break;
    default:
      break;
  }
  return e;
}

// -- io_buffer ------------------------------------------------------------------------------------

io_buffer::io_buffer(slot lease, size_t bytes) : lease_(std::move(lease)) {
  assert(lease_ && bytes <= lease_.bytes().size());
  bytes_ = lease_.bytes().first(bytes);
}

void io_buffer::free_memory::operator()(std::byte* p) const noexcept {
  if (mapped_bytes == 0) return std::free(p);
  unpoison(p, mapped_bytes);
  unmap_pages(p, mapped_bytes);
}

io_buffer io_buffer::allocate(size_t bytes) {
  io_buffer buffer;
  const size_t whole = buffer_bytes(bytes);
  const bool mapped = whole >= huge_page_bytes;
  auto booked = process_memory().book(memory_holder::current(), whole);
  if (!booked) throw memory_refused(booked.error());
  auto* memory = static_cast<std::byte*>(mapped ? map_pages(whole + guard_bytes)
                                                : std::aligned_alloc(disk_block, whole));
  if (memory == nullptr) throw std::bad_alloc();
  if (!mapped) std::memset(memory, 0, whole);
  if (mapped && guard_bytes > 0) poison(memory + whole, guard_bytes);
  buffer.memory_ = {memory, free_memory{mapped ? whole + guard_bytes : 0}};
  buffer.booking_ = std::move(*booked);
  buffer.bytes_ = {memory, bytes};
  return buffer;
}

result<io_buffer> io_buffer::make(size_t bytes) {
  try {
    return allocate(bytes);
  } catch (const memory_refused& e) {
    return e.why;
  } catch (const std::bad_alloc&) {
    return error{errc::no_memory, fmt::format("cannot allocate {} bytes of memory", bytes)};
  }
}

io_buffer io_buffer::over(std::span<std::byte> bytes, std::shared_ptr<void> owner) {
  io_buffer buffer;
  buffer.bytes_ = bytes;
  buffer.owner_ = std::move(owner);
  return buffer;
}

void io_buffer::abandon() noexcept {
  lease_.abandon();
  if (owner_) keep_forever(std::move(owner_));
  if (memory_) keep_forever(std::shared_ptr<std::byte>(std::move(memory_)));
}

// -- files ----------------------------------------------------------------------------------------

disk::~disk() {
  assert(running_ == 0);  // back ends drain
  for (auto& [id, op] : ops_) op.answer.buffer.abandon();
}

disk::nanoseconds disk::now() const {
  return std::chrono::steady_clock::now().time_since_epoch();
}

void disk::note(std::string text) {
  if (std::find(facts_.notes.begin(), facts_.notes.end(), text) == facts_.notes.end())
    facts_.notes.push_back(std::move(text));
}

void disk::warn(std::string text) {
  if (std::find(facts_.warnings.begin(), facts_.warnings.end(), text) == facts_.warnings.end())
    facts_.warnings.push_back(text);
  note(std::move(text));
}

void disk::raw_drop(int, uint64_t, size_t) {}

void disk::own() {
  auto self = std::this_thread::get_id();
  if (under_way() == 0) owner_ = self;
  assert(owner_ == self);
}

result<file_id> disk::open(const path& name, const open_options& options) {
  own();
  TROUPE_TRY(got, raw_open(name, options));
  auto id = static_cast<file_id>(++last_file_);  // DK-5
  auto& file = files_[id];
  file.name = name;
  file.handle = got.handle;
  file.direct = got.direct;
  file.drops = options.drop_pages && !got.direct;
  return id;
}

void disk::close(file_id id) {
  own();
  auto found = files_.find(id);
  if (found == files_.end()) return;
  found->second.closing = true;
  if (found->second.under_way > 0) return;
  raw_close(found->second.handle);
  files_.erase(found);
}

bool disk::direct(file_id file) const {
  auto found = files_.find(file);
  return found != files_.end() && found->second.direct;
}

status disk::health(file_id file) const {
  auto found = files_.find(file);
  return found == files_.end() ? status{} : found->second.health;
}

result<file_facts> disk::look(file_id file) const {
  const auto found = files_.find(file);
  if (found == files_.end()) return error{errc::bug, "look at a file that is not open"};
  file_facts out;
  if (const int failure = raw_look(found->second.handle, out); failure != 0)
    return disk_error("look at", found->second.name, failure);
  return out;
}

// -- operations -----------------------------------------------------------------------------------

status disk::write(file_id file, uint64_t offset, io_buffer buffer, uint64_t tag) {
  return accept(file, disk_op::write, offset, std::move(buffer), tag);
}

status disk::read(file_id file, uint64_t offset, io_buffer buffer, uint64_t tag) {
  return accept(file, disk_op::read, offset, std::move(buffer), tag);
}

status disk::fdatasync(file_id file, uint64_t tag) {
  return accept(file, disk_op::fdatasync, 0, {}, tag);
}

status disk::acceptable(file_id id, disk_op op, uint64_t offset, const io_buffer& buffer) const {
  auto found = files_.find(id);
  if (found == files_.end() || found->second.closing)
    return error{errc::bug, fmt::format("{} of a file that is not open", to_string(op))};
  const auto& file = found->second;
  if (!file.health) return file.health;  // DK-3
  if (under_way() >= most_operations)    // DK-6
    return error{errc::no_memory, fmt::format("{} operations are under way", under_way())};
  if (op == disk_op::fdatasync && file.writes > 0)  // DK-4
    return error{errc::bug, fmt::format("fdatasync of {} before its {} writes are done",
                                        file.name.string(), file.writes)};
  if (op == disk_op::fdatasync) return {};
  auto bytes = buffer.bytes().size();
  auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (bytes == 0 || bytes > (size_t{1} << 30) || offset > most - bytes)
    return error{errc::bug, fmt::format("{} of {} bytes at {} of {}", to_string(op), bytes, offset,
                                        file.name.string())};
  auto address = reinterpret_cast<uintptr_t>(buffer.bytes().data());
  if (file.direct && (offset % disk_block || bytes % disk_block || address % disk_block))
    return error{errc::bug,
                 fmt::format("{} of {} bytes at {} of {}, which is O_DIRECT, is not in "
                             "blocks of {}",
                             to_string(op), bytes, offset, file.name.string(), disk_block)};
  return {};
}

status disk::accept(file_id file, disk_op op, uint64_t offset, io_buffer buffer, uint64_t tag) {
  own();
  TROUPE_CHECK(acceptable(file, op, offset, buffer));
  auto& state = files_[file];
  ++state.under_way;
  if (op == disk_op::write) ++state.writes;
  buffer.writing();
  auto id = ++last_op_;
  size_t bytes = buffer.bytes().size();
  ops_[id].answer = {file, op, tag, offset, bytes, {}, std::move(buffer)};
  queue_.push_back(id);
  start_queued();
  return {};
}

void disk::start_queued() {
  while (!queue_.empty() && running_ < depth_) {  // DK-6
    auto id = queue_.front();
    queue_.pop_front();
    const auto& op = ops_.at(id);
    const auto& answer = op.answer;
    const auto& buffer = answer.buffer;
    raw_request request;
    request.id = id;
    request.op = answer.op;
    const auto& file = files_.at(answer.file);
    request.handle = file.handle;
    request.through = file.drops && answer.op == disk_op::write;
    request.offset = answer.offset + op.done;
    request.bytes = buffer.bytes().subspan(std::min(op.done, answer.bytes));
    request.buffer_index = buffer.index();
    request.ring = buffer.lease().ring().get();
    ++running_;
    raw_submit(request);
  }
}

std::vector<completion> disk::wait(size_t min, nanoseconds timeout) {
  own();
  auto until = now() + timeout;
  std::vector<raw_answer> answers;
  while (true) {
    start_queued();
    min = std::min(min, under_way());
    bool block = ready_.size() < min;
    answers.clear();
    bool woken = raw_reap(block, until, answers);
    for (const auto& answer : answers) settle(answer);
    if (ready_.size() >= min || woken || (answers.empty() && now() >= until)) break;
  }
  start_queued();
  return std::exchange(ready_, {});
}

/// Where an operation goes on after `moved` more bytes (DK-2).
void disk::advance(operation& op, const file_state& file, size_t moved) const {
  size_t reached = op.done + moved;
  if (file.direct && reached < op.answer.bytes) reached = reached / disk_block * disk_block;
  op.stalls = reached > op.done ? 0 : op.stalls + 1;
  op.done = reached;
}

void disk::settle(const raw_answer& answer) {
  auto found = ops_.find(answer.id);
  if (found == ops_.end()) return;
  --running_;
  auto& op = found->second;
  const auto& file = files_.at(op.answer.file);
  auto kind = op.answer.op;
  int failure = answer.value < 0 ? static_cast<int>(-answer.value) : 0;
  if (failure == 0 && kind != disk_op::fdatasync) {
    auto moved = std::min(static_cast<size_t>(answer.value), op.answer.bytes - op.done);
    if (file.drops) raw_drop(file.handle, op.answer.offset + op.done, moved);
    if (kind == disk_op::read && moved == 0) {
      finish(answer.id, file_ends(file.name.string(), op.answer.offset + op.done));
      return;
    }
    advance(op, file, moved);
  } else if ((failure == EINTR || failure == EAGAIN) && kind != disk_op::fdatasync) {
    ++op.stalls;
    failure = op.stalls > most_stalls ? failure : 0;
  }
  bool complete = failure == 0 && (kind == disk_op::fdatasync || op.done == op.answer.bytes);
  if (complete) return finish(answer.id, file.health);
  if (failure == 0 && !file.health) return finish(answer.id, file.health);
  if (failure == 0 && op.stalls <= most_stalls) {
    queue_.push_front(answer.id);
    return;
  }
  auto doing = fmt::format("{} at {} (of {} bytes, {} done) of", to_string(kind), op.answer.offset,
                           op.answer.bytes, op.done);
  if (kind == disk_op::fdatasync) doing = "fdatasync of";
  auto first = disk_error(doing, file.name, failure == 0 ? EIO : failure);
  if (kind != disk_op::read) kill(op.answer.file, first);
  finish(answer.id, kind == disk_op::read ? status(first) : file.health);
}

void disk::kill(file_id id, const error& first) {
  auto& file = files_.at(id);
  if (file.health) file.health = first;  // DK-3: the first one counts
  std::vector<uint64_t> queued;
  std::erase_if(queue_, [&](uint64_t op) {
    bool its = ops_.at(op).answer.file == id;
    if (its) queued.push_back(op);
    return its;
  });
  for (auto op : queued) finish(op, file.health);
}

void disk::finish(uint64_t id, status outcome) {
  auto found = ops_.find(id);
  auto answer = std::move(found->second.answer);
  ops_.erase(found);
  auto& file = files_.at(answer.file);
  --file.under_way;
  if (answer.op == disk_op::write) --file.writes;
  if (file.closing && file.under_way == 0) {
    raw_close(file.handle);
    files_.erase(answer.file);
  }
  if (answer.op == disk_op::read && outcome) answer.buffer.filled();
  answer.outcome = std::move(outcome);
  ready_.push_back(std::move(answer));
}

bool disk::drain(nanoseconds timeout) {
  for (auto id : std::exchange(queue_, {}))
    finish(id, error{errc::cancelled, "the disk is closing"});
  auto until = now() + timeout;
  std::vector<raw_answer> answers;
  while (running_ > 0) {
    answers.clear();
    raw_reap(true, until, answers);
    for (const auto& answer : answers) {
      if (ops_.count(answer.id) == 0) continue;
      --running_;
      finish(answer.id, error{errc::cancelled, "the disk is closing"});
    }
    if (answers.empty() && now() >= until) break;
  }
  bool all = running_ == 0;
  running_ = 0;
  for (auto& [id, op] : ops_) op.answer.buffer.abandon();  // DK-1
  ops_.clear();
  for (auto& [id, file] : files_) raw_close(file.handle);
  files_.clear();
  ready_.clear();
  return all;
}

}  // namespace troupe::io
