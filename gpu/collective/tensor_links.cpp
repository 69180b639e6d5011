// The frames of tensor_links.hpp over sockets that do not block.
#include "gpu/collective/tensor_links.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <gloo/common/error.h>

namespace troupe::gpu {

namespace {

constexpr uint64_t ready_frame = 1, data_frame = 2;
/// Read of one connection before others have their turn.
constexpr uint64_t turn_bytes = 4u << 20;
/// Receives that a peer may announce before anything is sent to it: far above any schedule.
constexpr size_t most_ready = 1u << 16;

}  // namespace

// -- buffers --------------------------------------------------------------------------------------

tensor_buffer::tensor_buffer(tensor_links& links, void* data, size_t bytes)
    : UnboundBuffer(data, bytes), links_(links) {}

tensor_buffer::~tensor_buffer() {
  std::lock_guard held(links_.guard_);
  if (sends_.begun > sends_.over || receives_.begun > receives_.over)  // TSL-3
    links_.fail_locked("a transfer was given up");
}

bool tensor_buffer::wait(progress& p, int* rank, std::chrono::milliseconds timeout) {
  if (timeout == gloo::transport::kUnsetTimeout) timeout = links_.getTimeout();
  tensor_links::lock held(links_.guard_);
  const bool moved = links_.moved_.wait_for(
      held, timeout, [&] { return p.over > p.waited || !links_.failure_.empty(); });
  if (p.over > p.waited) {
    ++p.waited;
    if (rank != nullptr) *rank = p.last_rank;
    return true;
  }
  if (!moved) links_.fail_locked(fmt::format("a transfer took longer than {} ms", timeout.count()));
  throw gloo::IoException(links_.failure_);
}

bool tensor_buffer::waitRecv(int* rank, std::chrono::milliseconds timeout) {
  return wait(receives_, rank, timeout);
}

bool tensor_buffer::waitSend(int* rank, std::chrono::milliseconds timeout) {
  return wait(sends_, rank, timeout);
}

void tensor_buffer::abortWaitRecv() {
  links_.fail("a receive was aborted");
}

void tensor_buffer::abortWaitSend() {
  links_.fail("a send was aborted");
}

size_t tensor_buffer::size_from(size_t offset, size_t bytes) const {
  if (offset > size) throw gloo::IoException("a transfer begins beyond its buffer");
  const auto rest = size - offset;
  if (bytes == kUnspecifiedByteCount) return rest;
  if (bytes > rest) throw gloo::IoException("a transfer ends beyond its buffer");
  return bytes;
}

void tensor_buffer::send(int to, uint64_t slot, size_t offset, size_t bytes) {
  const auto n = size_from(offset, bytes);
  std::lock_guard held(links_.guard_);
  links_.begin_send(to, slot, {this, static_cast<char*>(ptr) + offset, n});
}

void tensor_buffer::recv(int from, uint64_t slot, size_t offset, size_t bytes) {
  const auto n = size_from(offset, bytes);
  std::lock_guard held(links_.guard_);
  links_.begin_receive(from, slot, {this, static_cast<char*>(ptr) + offset, n});
}

void tensor_buffer::recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) {
  if (from.size() != 1) throw gloo::IoException("a receive is of one rank here");
  recv(from.front(), slot, offset, bytes);
}

// -- links ----------------------------------------------------------------------------------------

namespace {

/// That there is a way to a rank: Gloo's algorithms look whether there is a pair before they move
/// bytes by buffers, and ask nothing else of it.
class known_way final : public gloo::transport::Pair {
 public:
  const gloo::transport::Address& address() const override { none(); }
  void connect(const std::vector<char>&) override { none(); }
  void close() override {}
  void setSync(bool, bool) override { none(); }
  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int, void*, size_t) override { none(); }
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int, void*, size_t) override { none(); }
  void send(gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override { none(); }
  void recv(gloo::transport::UnboundBuffer*, uint64_t, size_t, size_t) override { none(); }

 private:
  [[noreturn]] static void none() {
    throw gloo::InvalidOperationException("this transport moves bytes by buffers alone");
  }
};

}  // namespace

tensor_links::tensor_links(int own, std::vector<io::unique_fd> sockets)
    : Context(own, static_cast<int>(sockets.size())),
      links_(sockets.size()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw gloo::IoException(std::strerror(errno));
  for (size_t r = 0; r < sockets.size(); ++r) {
    if (!sockets[r]) continue;
    const int fd = sockets[r].get();
    links_[r].socket = std::move(sockets[r]);
    pairs_[r] = std::make_unique<known_way>();
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u64 = r;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0)
      throw gloo::IoException(std::strerror(errno));
  }
  if (size > 1) server_ = std::thread([this] { serve(); });
}

tensor_links::~tensor_links() {
  fail("the group has ended");
  if (server_.joinable()) server_.join();
}

std::unique_ptr<gloo::transport::Pair>& tensor_links::createPair(int) {
  throw gloo::InvalidOperationException("this transport has no pairs");
}

std::unique_ptr<gloo::transport::UnboundBuffer> tensor_links::createUnboundBuffer(void* data,
                                                                                  size_t bytes) {
  return std::make_unique<tensor_buffer>(*this, data, bytes);
}

void tensor_links::fail(const std::string& why) noexcept {
  std::lock_guard held(guard_);
  fail_locked(why);
}

/// TSL-2. Sockets that are shut wake the server, which ends.
void tensor_links::fail_locked(const std::string& why) noexcept {
  if (!failure_.empty()) return;
  failure_ = why;
  for (auto& l : links_) {
    if (l.socket) shutdown(l.socket.get(), SHUT_RDWR);
    l.out.clear();
    l.sends.clear();
    l.receives.clear();
    l.into = {};
  }
  moved_.notify_all();
}

void tensor_links::serve() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    std::lock_guard held(guard_);
    if (n < 0 && errno != EINTR) fail_locked(std::strerror(errno));
    if (!failure_.empty()) return;
    for (int i = 0; i < n && failure_.empty(); ++i) {
      const auto peer = static_cast<int>(events[static_cast<size_t>(i)].data.u64);
      const auto what = events[static_cast<size_t>(i)].events;
      if ((what & EPOLLOUT) != 0) write_out(peer);
      if ((what & ~static_cast<uint32_t>(EPOLLOUT)) != 0) read_in(peer);
    }
  }
}

tensor_links::link& tensor_links::link_to(int peer) {
  if (!failure_.empty()) throw gloo::IoException(failure_);
  if (peer < 0 || peer >= size || !links_[static_cast<size_t>(peer)].socket)
    throw gloo::IoException(fmt::format("no connection to rank {}", peer));
  return links_[static_cast<size_t>(peer)];
}

void tensor_links::begin_send(int peer, uint64_t slot, operation o) {
  auto& l = link_to(peer);
  ++o.buffer->sends_.begun;
  const auto it = l.ready.find(slot);
  if (it == l.ready.end()) {
    l.sends[slot].push_back(o);
    return;
  }
  const auto wanted = it->second.front();
  it->second.pop_front();
  if (it->second.empty()) l.ready.erase(it);
  --l.ready_count;
  if (wanted != o.bytes)
    return fail_locked(
        fmt::format("rank {} receives {} bytes where {} are sent", peer, wanted, o.bytes));
  l.out.push_back({{data_frame, slot, o.bytes}, o, 0});
  write_out(peer);
}

void tensor_links::begin_receive(int peer, uint64_t slot, operation o) {
  auto& l = link_to(peer);
  ++o.buffer->receives_.begun;
  l.receives[slot].push_back(o);
  l.out.push_back({{ready_frame, slot, o.bytes}, {}, 0});
  write_out(peer);
}

void tensor_links::write_out(int peer) {
  auto& l = links_[static_cast<size_t>(peer)];
  while (!l.out.empty()) {
    auto& o = l.out.front();
    const auto data = o.head.kind == data_frame ? o.what.bytes : 0;
    const auto of_head = std::min<uint64_t>(o.sent, sizeof(frame)), of_data = o.sent - of_head;
    std::array<iovec, 2> parts{
        iovec{reinterpret_cast<char*>(&o.head) + of_head, sizeof(frame) - of_head},
        iovec{o.what.data + of_data, data - of_data}};
    msghdr m{};
    m.msg_iov = parts.data();
    m.msg_iovlen = data > of_data ? 2 : 1;
    const auto n = sendmsg(l.socket.get(), &m, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return fail_locked(fmt::format("rank {}: {}", peer, std::strerror(errno)));
    o.sent += static_cast<uint64_t>(n);
    if (o.sent < sizeof(frame) + data) continue;
    if (o.what.buffer != nullptr) {
      ++o.what.buffer->sends_.over;
      o.what.buffer->sends_.last_rank = peer;
      moved_.notify_all();
    }
    l.out.pop_front();
  }
  if (l.watched_for_room == !l.out.empty()) return;
  l.watched_for_room = !l.out.empty();
  epoll_event e{};
  e.events = EPOLLIN | (l.watched_for_room ? EPOLLOUT : 0u);
  e.data.u64 = static_cast<uint64_t>(peer);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, l.socket.get(), &e) != 0)
    fail_locked(fmt::format("rank {}: {}", peer, std::strerror(errno)));
}

/// Reads up to `until` of the frame; false where that has to wait, or failed.
bool tensor_links::read_part(link& l, char* into, uint64_t until) {
  const auto peer = static_cast<int>(&l - links_.data());
  while (l.read < until) {
    const auto n = ::recv(l.socket.get(), into, until - l.read, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) {
      fail_locked(fmt::format("rank {}: {}", peer,
                              n == 0 ? "its connection has ended" : std::strerror(errno)));
      return false;
    }
    into += n;
    l.read += static_cast<uint64_t>(n);
  }
  return true;
}

void tensor_links::read_in(int peer) {
  auto& l = links_[static_cast<size_t>(peer)];
  for (uint64_t turn = 0; turn < turn_bytes && failure_.empty();) {
    if (l.read < sizeof(frame)) {
      if (!read_part(l, reinterpret_cast<char*>(&l.head) + l.read, sizeof(frame))) return;
      turn += sizeof(frame);
      frame_has_come(peer);
      continue;
    }
    const auto before = l.read;
    const auto end = sizeof(frame) + l.head.bytes;
    const auto until = std::min<uint64_t>(end, before + turn_bytes);
    if (!read_part(l, l.into.data + (before - sizeof(frame)), until)) return;
    turn += l.read - before;
    if (l.read == end) data_has_come(peer);
  }
}

void tensor_links::frame_has_come(int peer) {
  auto& l = links_[static_cast<size_t>(peer)];
  if (l.head.kind == ready_frame) {
    l.read = 0;
    if (const auto it = l.sends.find(l.head.slot); it != l.sends.end()) {
      const auto o = it->second.front();
      it->second.pop_front();
      if (it->second.empty()) l.sends.erase(it);
      if (o.bytes != l.head.bytes)
        return fail_locked(fmt::format("rank {} receives {} bytes where {} are sent", peer,
                                       l.head.bytes, o.bytes));
      l.out.push_back({{data_frame, l.head.slot, o.bytes}, o, 0});
      return write_out(peer);
    }
    if (++l.ready_count > most_ready)
      return fail_locked(fmt::format("rank {} receives more than anybody sends", peer));
    l.ready[l.head.slot].push_back(l.head.bytes);
    return;
  }
  const auto it = l.receives.find(l.head.slot);
  if (l.head.kind != data_frame || it == l.receives.end() ||
      it->second.front().bytes != l.head.bytes)  // TSL-1
    return fail_locked(fmt::format("unexpected tensor from rank {}", peer));
  l.into = it->second.front();
  if (l.head.bytes == 0) data_has_come(peer);
}

void tensor_links::data_has_come(int peer) {
  auto& l = links_[static_cast<size_t>(peer)];
  const auto it = l.receives.find(l.head.slot);
  it->second.pop_front();
  if (it->second.empty()) l.receives.erase(it);
  ++l.into.buffer->receives_.over;
  l.into.buffer->receives_.last_rank = peer;
  l.into = {};
  l.read = 0;
  moved_.notify_all();
}

}  // namespace troupe::gpu
