// A socket that does not block, looked at now and then.
#include "actors/health/host_reach.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/file.hpp"

namespace troupe::health {

namespace {

/// Whether this outcome of connect() says something of the host; others are this machine's own.
bool is_of_host(int outcome) {
  for (const int e :
       {0, EINPROGRESS, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EHOSTDOWN, ENETUNREACH, ETIMEDOUT})
    if (outcome == e) return true;
  return false;
}

/// Whether this outcome of connect() is the host's own word.
bool is_word_of_host(int outcome) {
  return outcome == 0 || outcome == ECONNREFUSED || outcome == ECONNRESET;
}

class tcp_question final : public host_question {
 public:
  tcp_question(io::unique_fd socket, int outcome) : socket_(std::move(socket)) {
    if (outcome != EINPROGRESS) answered_ = is_word_of_host(outcome);
  }

  std::optional<bool> answered() override {
    if (answered_) return answered_;
    pollfd look{socket_.get(), POLLOUT, 0};
    if (poll(&look, 1, 0) <= 0) return std::nullopt;
    int outcome = 0;
    socklen_t size = sizeof(outcome);
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &outcome, &size) != 0) return std::nullopt;
    return answered_ = is_word_of_host(outcome);
  }

 private:
  io::unique_fd socket_;
  std::optional<bool> answered_;
};

}  // namespace

std::unique_ptr<host_question> ask_host_by_tcp(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return nullptr;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  io::unique_fd s(
      socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!s) return nullptr;
  const int outcome = connect(s.get(), found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  if (!is_of_host(outcome)) return nullptr;  // RCH-3
  return std::make_unique<tcp_question>(std::move(s), outcome);
}

void silent_hosts::lives_at(const std::string& node, std::string address, uint16_t port) {
  places_.insert_or_assign(node, place{std::move(address), port});
  questions_.erase(node);
}

silent_hosts::question silent_hosts::ask(const std::string& node, int64_t now_ns) const {
  question out{nullptr, now_ns, word::unknown};
  const auto it = places_.find(node);
  if (!ask_ || it == places_.end()) return out;
  out.open = ask_(it->second.address, it->second.port);
  if (out.open) out.said = word::asked;
  return out;
}

void silent_hosts::hear(question& q, int64_t now_ns) const {
  if (q.said != word::asked) return;
  const auto answered = q.open->answered();
  if (!answered && now_ns - q.asked_ns < patience_ns_) return;
  q.said = answered.value_or(false) ? word::answers : word::lost;
  q.open.reset();
}

std::set<std::string> silent_hosts::silent_now(std::span<const stuck_policy::silence> nodes,
                                               int64_t now_ns) {
  std::erase_if(questions_, [&](const auto& q) {
    return std::none_of(nodes.begin(), nodes.end(),
                        [&](const auto& n) { return n.node == q.first; });
  });
  std::set<std::string> lost;
  for (const auto& n : nodes) {
    auto it = questions_.find(n.node);
    if (it == questions_.end()) it = questions_.emplace(n.node, ask(n.node, now_ns)).first;
    const auto before = it->second.said;
    hear(it->second, now_ns);
    if (before == word::asked && it->second.said == word::lost) lost.insert(n.node);
  }
  return lost;
}

std::optional<finding> silent_hosts::finding_of(const stuck_policy::silence& node,
                                                int64_t allowed_ns) const {
  const auto said = of(node.node);
  if (said == word::asked) return std::nullopt;
  const bool lost = said == word::lost;
  return finding{
      {lost ? finding_name::lost_host : finding_name::frozen_process, node.node},
      {static_cast<double>(node.silent_ns) / 1e9, static_cast<double>(allowed_ns) / 1e9, "s",
       lost ? "it sends no heartbeats, and its host makes no connection"
            : "it sends no heartbeats"}};
}

bool silent_hosts::judges(const std::string& node) const {
  return of(node) == word::asked || of(node) == word::lost;
}

silent_hosts::word silent_hosts::of(const std::string& node) const {
  const auto it = questions_.find(node);
  return it == questions_.end() ? word::unknown : it->second.said;
}

}  // namespace troupe::health
