// What a worker's streams do, on its card and in the flight recorder: whom a transfer waits for,
// what the device computes, and a record of every operation under the message it was done for.
#pragma once

#include "actors/base/board.hpp"
#include "actors/train/engine.hpp"

namespace troupe::train {

/// Writes to the card of one worker, which must outlive it.
class card_probe : public engine_probe {
 public:
  card_probe(actor_card& card, const grid_rank& at) : card_(card), at_(at) {}

  uint64_t begin(const operation& op) override;
  void end(const operation& op, uint64_t token, double begin_ms, double end_ms) override;

 private:
  std::vector<std::string> peers_of(const operation& op) const;

  actor_card& card_;
  grid_rank at_;
};

}  // namespace troupe::train
