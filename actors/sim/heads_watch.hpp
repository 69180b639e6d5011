// What must hold of several heads, seen in the messages of a simulated cluster: simulation.hpp has
// the invariants (all from SIM-17 on but SIM-20). It counts for itself what voters grant, and
// believes no head.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/heads/elector.hpp"
#include "actors/sim/world.hpp"
#include "messages/any_msg.hpp"

namespace troupe::sim {

class heads_watch {
 public:
  struct rules {
    size_t voters = 0;
    int64_t without_majority_ns = 0;  ///< how long a head may go on making steps
  };
  heads_watch(world& where, const rules& how) : where_(where), rules_(how) {}

  /// The head in a place of the world is known to others by its address.
  void is_at(int place, std::string address) { address_[place] = std::move(address); }
  /// A message is put into a mailbox.
  void saw(const any_msg& m, const actor_stats& receiver);
  /// A standby is to act.
  void won(int place, const heads::won_epoch& what);
  /// A head begins, from the state after a step; `won`: as the head of which epoch.
  void begins(int place, uint32_t won_epoch, uint64_t resumed_step);
  /// A head told a person that a checkpoint is committed.
  void told_saved(int place, uint64_t step);
  /// The process in a place ran again after it stood still.
  void woke(int place) { woke_ns_[place] = where_.now_ns(); }
  /// A process begins there whose voter finds this on the disk.
  void voter_finds(int place, uint32_t promised);
  /// The job has come to its end.
  void over(int place);

  uint64_t takeovers() const { return takeovers_; }

 private:
  /// Which record of which head's: later heads' are later ones.
  using rank = std::pair<uint32_t, uint64_t>;
  struct record {
    rank at;
    uint16_t kind = 0;
    int place = 0;
    int64_t said_ns = 0;
    std::string content;
  };
  struct head {
    uint32_t won = 0;  ///< the epoch that its process was elected in
    int64_t elected_ns = 0;
    int64_t asked_to_commit_ns = -1;
  };
  struct victory {
    int place = 0;
    int64_t at_ns = 0;
    std::map<uint16_t, rank> held;
  };

  void granted(const any_msg& m, int to);
  void elected(const any_msg& m, const actor_stats& receiver, int to);
  void said(const any_msg& m, int at);
  void acknowledged(uint64_t parent);
  void ordered(const any_msg& m);
  void commits(int at);
  void stepped(int at);
  void check_majority(uint32_t epoch, int place);
  void check_found(const victory& later, uint32_t epoch, const record& what);

  world& where_;
  rules rules_;
  std::map<int, std::string> address_;
  std::map<std::pair<int, uint32_t>, std::string> promised_;  ///< by voter and epoch: to whom
  std::map<std::pair<uint32_t, std::string>, std::set<int>> grants_;  ///< voters, by epoch and head
  std::map<int, uint32_t> latest_;            ///< that a voter was heard to have promised
  std::map<uint32_t, int> elected_;           ///< who has a majority in an epoch
  std::map<uint64_t, uint32_t> asked_;        ///< epochs, by the span of Elect
  std::map<uint32_t, victory> victories_;     ///< by epoch
  std::map<uint64_t, record> records_;        ///< by span
  std::map<uint16_t, record> acknowledged_;   ///< the newest of each kind
  std::map<int, head> heads_;
  std::map<int, int64_t> woke_ns_;
  uint64_t said_ = 0, takeovers_ = 0;
  uint64_t saved_ = 0;  ///< the newest checkpoint that a person was told of
  bool over_ = false;
};

}  // namespace troupe::sim
