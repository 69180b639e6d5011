// The servers of a simulated row: pools, queues, phases of requests, clocks, watts.
//
// Apart from the loop of events and from the policy: it knows times and powers alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "actors/sim/row/row_model.hpp"

namespace troupe::sim {

/// When which server's phase ends, the earliest first: a tree of winners over the servers.
class phase_ends {
 public:
  static constexpr int64_t never = INT64_MAX;

  explicit phase_ends(size_t servers);
  void set(size_t server, int64_t at_ns);
  int64_t next_ns() const { return at_[winner_[1]]; }
  size_t next() const { return winner_[1]; }

 private:
  size_t leaves_;
  std::vector<int64_t> at_;
  std::vector<uint32_t> winner_;  ///< of each node of the tree; leaves are servers
};

class row_pools {
 public:
  row_pools(int lp_servers, int hp_servers, double power_scale);

  /// mW of all servers, now.
  int64_t drawn_mw() const { return drawn_mw_; }
  /// mW if every server's GPUs were at the peak of a prompt, at the clocks in force.
  int64_t most_mw() const;

  /// A request comes: it starts on an idle server of its class, waits, or is dropped.
  void arrive(row_class c, const row_request& r, int64_t now_ns);
  int64_t next_end_ns() const { return ends_.next_ns(); }
  /// The phase ends that ends next.
  void end_phase(int64_t now_ns);
  /// The clock of a class from now on; under the brake, from its release on.
  void lock(row_class c, int mhz, int64_t now_ns);
  void brake(int mhz, int64_t now_ns);
  /// Whose number it names; servers of low priority come first.
  void release(const std::function<bool(size_t server)>& whose, int64_t now_ns);

  struct tally {
    std::vector<float> latency_s;  ///< of each request that is done
    uint64_t dropped = 0;
  };
  tally& of(row_class c) { return pool_of(c).counted; }
  /// Waiting or under way.
  uint64_t unfinished(row_class c) const;

 private:
  enum class phase : uint8_t { idle, prompt, tokens };
  struct waiting_request {
    row_request r;
    int64_t came_ns;
  };
  struct server {
    phase doing = phase::idle;
    row_class of = row_class::low;
    bool braked = false;
    row_request r;
    int64_t came_ns = 0;
    int64_t since_ns = 0;  ///< when `left_ns` was right
    double left_ns = 0;    ///< of the phase, at the full clock
    int64_t draws_mw = 0;
  };
  struct pool {
    size_t servers = 0, braked = 0;
    row_clock locked;
    std::vector<uint32_t> idle;
    std::deque<waiting_request> waiting;
    tally counted;
  };

  pool& pool_of(row_class c) { return pools_[static_cast<size_t>(c)]; }
  void begin(size_t i, phase doing, int64_t now_ns);
  void start(size_t i, const waiting_request& w, int64_t now_ns);
  const row_clock& clock(const server& s) const;
  void stop(server& s, int64_t now_ns);
  void go_on(size_t i, int64_t now_ns);
  void set_braked(server& s, bool braked);
  double factor(const server& s) const;
  void draw(server& s);

  row_watts watts_;
  std::vector<server> servers_;
  pool pools_[row_classes];
  phase_ends ends_;
  row_clock brake_clock_;
  int64_t drawn_mw_ = 0;
};

}  // namespace troupe::sim
