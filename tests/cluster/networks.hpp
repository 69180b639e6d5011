// Machines of a test's own, for root: each has a network namespace with one address, all on one
// bridge, over which packets can be made to vanish without a word. Gone with the process, however
// it ends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/file.hpp"

namespace troupe::cluster_test {

/// Why this process cannot have any; nothing if it can.
std::optional<std::string> why_no_networks();

class network {
 public:
  /// So many machines, from 0 on, each of which reaches every other.
  explicit network(int machines);

  static std::string address_of(int machine);

  /// While it lives, what this thread starts lives on that machine.
  class visit {
   public:
    visit(const network& of, int machine);
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;
    ~visit();

   private:
    io::unique_fd home_;
  };

  /// From now on what `from` sends to `to` goes nowhere, and nobody is told.
  void lose(int from, int to);
  /// The same both ways.
  void cut(int one, int other);
  /// What `from` sends to `to` arrives again.
  void mend(int from, int to);

 private:
  void say(int machine, const std::string& command) const;

  std::vector<io::unique_fd> namespaces_;  ///< of machines, then the bridge's
};

}  // namespace troupe::cluster_test
