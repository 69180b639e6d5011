// Connections that other processes made and that have not said yet who they are: how many may wait,
// how long, and which of them gives way.
//
// Why: whoever reaches a port can hold connections to it that say nothing. Each costs a descriptor,
// and a process without descriptors saves no checkpoint. On loopback all have one address, owner
// and strangers alike, so nobody can be refused by address: the oldest gives way. It had the most
// time; a process of ours says who it is within a few rounds of the network's loop, which takes one
// new connection a round.
//
// Pure: it is handed the time.
//
// Invariants
//   STR-1  At most `per_address` of one address wait, and `in_all` altogether: for one more one of
//     its address gives way, or one of the address that has the most.
//   STR-2  Nobody waits longer than `patience_ns`.
//   STR-3  Who has said who he is waits no more, and is never given up here.
//   STR-4  The oldest of an address that has said nothing gives way before those that have begun as
//     a peer does, unless these are more than half: neither a crowd that says nothing nor one that
//     only begins keeps the other kind out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster {

/// How many may wait, and how long.
struct stranger_bounds {
  size_t per_address = 512;
  size_t in_all = 1024;
  int64_t patience_ns = 10'000'000'000;
};

/// What a process that may open `descriptors` files can spare: the reserve stays free of
/// connections of any kind, and of the rest strangers get the half.
struct descriptor_shares {
  int64_t reserve = 0;  ///< for checkpoints, logs and whatever else opens files
  stranger_bounds strangers;
};
descriptor_shares shares_of(int64_t descriptors);

class strangers_policy {
 public:
  explicit strangers_policy(stranger_bounds bounds = {}) : bounds_(bounds) {}

  /// A connection has come and waits; answers with one that gives way to it (STR-1).
  std::optional<int64_t> came(int64_t connection, const std::string& address, int64_t now_ns);

  /// It has begun as a peer does (STR-4).
  void spoke(int64_t connection);

  /// It has said who it is, or is gone.
  void settled(int64_t connection);

  /// Those that have waited too long (STR-2); they wait no more.
  std::vector<int64_t> overdue(int64_t now_ns);

  size_t waiting() const noexcept { return waiting_.size(); }

 private:
  struct stranger {
    int64_t connection;
    std::string address;
    int64_t since_ns;
    bool spoke = false;
  };
  using line = std::list<stranger>;  ///< the oldest first
  struct tally {
    size_t all = 0, spoke = 0;
  };

  line::iterator one_of(const std::string& address);
  const std::string& fullest() const;
  void leave(line::iterator who);

  stranger_bounds bounds_;
  line waiting_;
  std::map<int64_t, line::iterator> by_connection_;
  std::map<std::string, tally> by_address_;
};

}  // namespace troupe::cluster
