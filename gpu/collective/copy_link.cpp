// Poll, send, receive.
#include "gpu/collective/copy_link.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include <fmt/format.h>

namespace troupe::gpu {

namespace cp = io::checkpoint;

namespace {

error broken(std::string_view why) {
  return {errc::unavailable, fmt::format("the link of copies in memory: {}", why)};
}

std::span<std::byte> sums_of(cp::memory_copy& copy) {
  return std::as_writable_bytes(copy.sums());
}

}  // namespace

void copy_link::abort() noexcept {
  aborted_ = true;
  shutdown(socket_.get(), SHUT_RDWR);  // wakes who polls it
}

/// CPL-2.
status copy_link::move(bool out, std::span<std::byte> bytes, until how) {
  while (!bytes.empty()) {
    if (aborted_) return broken("it was aborted");
    const auto n = out ? ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
                       : ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
      how = until::patience;  // what has begun goes on
      continue;
    }
    if (n == 0) return broken("it has ended");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return broken(std::strerror(errno));
    pollfd p{socket_.get(), static_cast<short>(out ? POLLOUT : POLLIN), 0};
    const int ready = poll(&p, 1, how == until::ended ? -1 : static_cast<int>(patience_.count()));
    if (ready == 0) return broken(fmt::format("nothing moved for {} ms", patience_.count()));
    if (ready < 0 && errno != EINTR) return broken(std::strerror(errno));
  }
  return {};
}

status copy_link::send(std::span<const std::byte> bytes) {
  return move(true, {const_cast<std::byte*>(bytes.data()), bytes.size()}, until::patience);
}

status copy_link::send(const cp::copy_frame& f) {
  return send(cp::encode(f));
}

status copy_link::receive(std::span<std::byte> bytes) {
  return move(false, bytes, until::patience);
}

result<cp::copy_frame> copy_link::receive_frame(until how) {
  std::array<std::byte, cp::copy_frame::bytes> head;
  TROUPE_CHECK(move(false, head, how));
  return cp::parse_copy_frame(head);
}

status copy_link::send_share(const cp::memory_copy& copy) {
  TROUPE_CHECK(send(std::as_bytes(copy.sums())));
  return send(copy.bytes());
}

status copy_link::receive_share(cp::memory_copy& into) {
  TROUPE_CHECK(receive(sums_of(into)));
  return receive(into.bytes());
}

status copy_link::put(const cp::memory_copy& copy) {
  TROUPE_CHECK(
      send(cp::copy_frame{cp::copy_frame_kind::put, copy.rank(), copy.tag(), copy.shape()}));
  TROUPE_CHECK(send_share(copy));
  TROUPE_TRY(answer, receive_frame(until::patience));
  if (answer.kind != cp::copy_frame_kind::done || answer.tag != copy.tag())
    return broken("the keeper does not hold it");
  return {};
}

status copy_link::get(cp::memory_copy& into) {
  const cp::copy_frame wanted{cp::copy_frame_kind::get, into.rank(), into.tag(), into.shape()};
  TROUPE_CHECK(send(wanted));
  TROUPE_TRY(answer, receive_frame(until::patience));
  if (answer.kind != cp::copy_frame_kind::share)
    return cp::copy_missing(into.rank(), into.tag().step);
  if (answer.rank != into.rank() || answer.tag != into.tag() || answer.shape != into.shape())
    return broken("the keeper sent another copy");
  TROUPE_CHECK(receive_share(into));
  return into.check();
}

// -- the keeper's side ----------------------------------------------------------------------------

status copy_link::answer_put(cp::memory_copies& store, cp::copy_frame asked) {
  auto into = store.begin(asked.rank, asked.tag, asked.shape);
  if (!into) {  // CPL-4: what follows cannot be taken, nor passed over
    asked.kind = cp::copy_frame_kind::refused;
    (void)send(asked);
    return into.error();
  }
  TROUPE_CHECK(receive_share(**into));
  const auto sound = (*into)->check();  // CPL-3
  if (sound) store.seal(*into);
  asked.kind = sound ? cp::copy_frame_kind::done : cp::copy_frame_kind::refused;
  return send(asked);
}

status copy_link::answer_get(const cp::memory_copies& store, cp::copy_frame asked) {
  const auto held = store.find(asked.rank, asked.tag);
  const bool has = held && held->shape() == asked.shape;
  asked.kind = has ? cp::copy_frame_kind::share : cp::copy_frame_kind::refused;
  TROUPE_CHECK(send(asked));
  return has ? send_share(*held) : status();
}

status copy_link::answer_one(cp::memory_copies& store, int owner, const cp::copy_shape& own) {
  TROUPE_TRY(asked, receive_frame(until::ended));
  if (asked.rank != owner || asked.shape.layout != own.layout ||
      asked.shape.slot_bytes != own.slot_bytes)  // CPL-4
    return broken("a share that is not of the rank that is kept");
  if (asked.kind == cp::copy_frame_kind::put) return answer_put(store, asked);
  if (asked.kind == cp::copy_frame_kind::get) return answer_get(store, asked);
  return broken("an answer where a question was expected");
}

copy_keeper::copy_keeper(std::shared_ptr<cp::memory_copies> store, std::unique_ptr<copy_link> link,
                         int owner, cp::copy_shape own, std::function<void(const status&)> told)
    : link_(std::move(link)) {
  thread_ = std::thread([this, store = std::move(store), owner, own, told = std::move(told)] {
    for (status answered; answered;) {
      answered = link_->answer_one(*store, owner, own);
      if (told) told(answered);
    }
    link_->abort();
  });
}

copy_keeper::~copy_keeper() {
  link_->abort();
  thread_.join();
}

}  // namespace troupe::gpu
