// Whether the host of a silent node can be reached at all: a frozen process and a lost host send
// the same, which is nothing. The kernel of a host that lives makes or refuses a connection,
// whatever its processes do.
//
// Invariants
//   RCH-1  A host is asked after once for each silence of its node, and not before it.
//   RCH-2  What no word comes from within defaults::host_patience cannot be reached. Nobody waits
//     for it meanwhile.
//   RCH-3  Where it cannot be asked (its address is a name, nobody knows it) nothing is said of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "actors/health/findings_policy.hpp"
#include "actors/health/stuck_policy.hpp"

namespace troupe::health {

/// A question to a host, under way.
class host_question {
 public:
  virtual ~host_question() = default;
  /// Whether it has answered, or that it cannot be; nothing: there is no word yet. Does not wait.
  virtual std::optional<bool> answered() = 0;
};

/// Asks a host by its address and a port that it listens on; null where it cannot be asked.
using host_asker =
    std::function<std::unique_ptr<host_question>(const std::string& address, uint16_t port)>;

/// By a connection over TCP, to an address in numbers: a name would have to be looked up.
std::unique_ptr<host_question> ask_host_by_tcp(const std::string& address, uint16_t port);

class silent_hosts {
 public:
  silent_hosts() = default;
  /// `ask`: none, and nothing is known of any.
  silent_hosts(host_asker ask, int64_t patience_ns)
      : ask_(std::move(ask)), patience_ns_(patience_ns) {}

  /// It has joined from there.
  void lives_at(const std::string& node, std::string address, uint16_t port);
  /// These nodes are silent now, and all others are not. Those whose hosts are found to be lost.
  std::set<std::string> silent_now(std::span<const stuck_policy::silence> nodes, int64_t now_ns);
  /// What it is that a node is silent; nothing: its host has not answered yet.
  std::optional<finding> finding_of(const stuck_policy::silence& node, int64_t allowed_ns) const;
  /// Whether the silence is judged by the host: it is lost, or has not answered yet.
  bool judges(const std::string& node) const;

 private:
  enum class word { unknown, asked, answers, lost };
  struct place {
    std::string address;
    uint16_t port = 0;
  };
  struct question {
    std::unique_ptr<host_question> open;  ///< until there is a word
    int64_t asked_ns = 0;
    word said = word::asked;
  };
  question ask(const std::string& node, int64_t now_ns) const;
  void hear(question& q, int64_t now_ns) const;
  word of(const std::string& node) const;

  host_asker ask_;
  int64_t patience_ns_ = 0;
  std::map<std::string, place> places_;        ///< by node
  std::map<std::string, question> questions_;  ///< of nodes that are silent
};

}  // namespace troupe::health
