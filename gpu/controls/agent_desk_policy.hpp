// Which job the agent of a machine sets a device for, and how slow its ranks want it.
//
// The agent has the seats of the devices that it holds (seat.hpp), so that no job can take one;
// what it hands out is a wish that counts beside its own. Ranks of a job have one pace, and say it
// one after the other at a step's begin.
//
// Pure.
//
// Invariants
//   AGD-1  A device is one job's at a time: of one name, one launch and one user, whom the kernel
//     names. Its ranks share it (SGV-3), and who goes on for them when they are gone has it anew.
//   AGD-2  Of the wishes of its ranks the least counts: the device is no faster than any of them
//     has asked for. Without a rank, and while none has said a pace, there is no wish: the whole.
//   AGD-3  Who has gone has no wish.
//   AGD-4  Clocks of single operations (operation_clocks.hpp) are only who has a device alone may
//     ask for: they would slow the others' operations, which have none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "gpu/controls/actuator.hpp"

namespace troupe::gpu::controls {

class agent_desk_policy {
 public:
  /// For whom a device is set. AGD-1
  struct tenant {
    std::string job;
    uint64_t launch = 0;
    int64_t uid = 0;
    bool operator==(const tenant&) const = default;
  };

  /// A client that has none gets a device; else who has it (AGD-1).
  std::optional<tenant> take(uint64_t client, const std::string& device, const tenant& of);
  /// False: it has none.
  bool set(uint64_t client, int pace_of_1024);
  /// Which device the client had; none: none. AGD-3
  std::optional<std::string> let_go(uint64_t client);
  /// AGD-2
  int wish_of(const std::string& device) const;
  /// Whether nobody beside a client has its device. AGD-4
  bool has_alone(uint64_t client) const;
  size_t size() const { return claims_.size(); }

 private:
  struct claim {
    std::string device;
    tenant of;
    int pace_of_1024 = whole_pace;
  };
  std::map<uint64_t, claim> claims_;  ///< by client
};

}  // namespace troupe::gpu::controls
