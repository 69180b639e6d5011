// What a checkpoint says of the training beside its tensors: train_state.json.
//
//   {"format":1,"step":120,"tokens":...,"loss":...,"config":"<TOML>",
//    "set":[{"key":"train.lr","value":"0.001","was":"0.003","step":116}],
//    "skipped":[{"first":4096,"count":2048}],"replicas_configured":2}
//
// "tokens" is the place in the endless sequence of training tokens behind the last one that was
// trained on, or passed over; "skipped", which older files lack, has the parts of it that were.
// "config" is the whole resolved configuration of the step's run; "set", which older files lack, is
// what persons changed while it went on: the value in force, what the configuration's file says
// instead, and the first step that used it. "replicas_configured" is there where the step was made
// with fewer replicas than the job is configured with, of which "config" has the number that it
// was made with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::checkpoint {

/// A setting that a person changed during a run.
struct setting_change {
  std::string key;    ///< e.g. "train.lr"
  std::string value;  ///< in force, as TOML text
  std::string was;    ///< what the file says, as TOML text
  uint64_t step = 0;  ///< the first that used it, from 1
  bool operator==(const setting_change&) const = default;
};

/// A part of the endless sequence of training tokens that no step trains on.
struct skipped_tokens {
  uint64_t first = 0;  ///< its place, from 0
  uint64_t count = 0;
  bool operator==(const skipped_tokens&) const = default;
};
/// How many of them a job may have.
inline constexpr size_t skipped_limit = 256;
/// Steps' worth of data that a person may have passed over at once.
inline constexpr uint64_t most_skipped_steps = 1'000'000;

/// What train_state.json says.
struct train_state {
  uint64_t step = 0;    ///< the last finished step
  uint64_t tokens = 0;  ///< trained on so far, and passed over
  double loss = 0;      ///< of the last step
  std::string config_toml;
  std::vector<setting_change> set = {};
  std::vector<skipped_tokens> skipped = {};  ///< in order
  int64_t replicas_configured = 0;  ///< where config_toml has fewer; 0: it has as many
  std::optional<double> validation_loss = {};  ///< of it, where it is validated (the manifest)
};

/// The file's name in a checkpoint.
inline constexpr std::string_view state_file = "train_state.json";

/// Its length at most, of what is read.
inline constexpr size_t max_state_bytes = size_t{16} << 20;

/// JSON text and back. Foreign: bad_data with what is wrong.
std::string format_state(const train_state& state);
result<train_state> parse_state(std::string_view text);

}  // namespace troupe::checkpoint
