// How quick a machine is beside another one, before either was probed: what a model that `troupe
// predict train` wrote (a prior) says of its hardware fields.
//
// What the model's outputs mean does not matter here, scores of a public benchmark or a fleet's
// tokens: of two machines the ratio of their estimates is taken, and that a worker has its threads'
// share of its machine. Outputs that are times count the other way round (is_time). Columns of
// public tables that say the same as a hardware field in other words are translated.
//
// Invariants
//   MQK-1  A model is asked only where each of its columns about the processor is a hardware field,
//     by name and unit: what is none is named. What a machine does not tell of the rest, such as
//     a compiler, is completed by train rows like it, which the interval covers (fill.hpp).
//   MQK-2  An estimate is a number above 0, or there is none: of a machine that tells nothing of
//     its processor nothing is said.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "gpu/predict/predictor.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::gpu::predict {

/// The file, and what it lacks.
inline constexpr error_kind<std::string_view, std::string_view> no_speed_prior{
    "no_speed_prior", errc::bad_config, "{} says nothing of this kind of machines: {}",
    "predict.prior takes a model of machines, as `troupe predict probe -o` lists them, or of SPEC's"
    " results; leave it out to go by probes"};

/// Of one machine.
struct machine_speed {
  double a_thread = 0;  ///< what one of its threads does, in a unit of the model's own
  double half = 0;      ///< of the 95 % interval of its logarithm, either way
};

/// By how much one machine takes longer than another, and how sure that is.
struct speed_ratio {
  double by = 1;
  double half = 0;  ///< of the logarithm
};
/// How many times as long `slow` takes for what `quick` does with as many threads.
speed_ratio times_as_long(const machine_speed& slow, const machine_speed& quick);

/// Whether a model's output is a time, of which less is quicker, by its name's last word: "ms",
/// "step_ms", "seconds". A rate's is not: "tokens_per_s", "gemm_gflop_s".
bool is_time(std::string_view output);

class speed_prior {
 public:
  /// Errors: no_speed_prior (MQK-1).
  static result<speed_prior> of(ModelT model, std::string_view name);
  /// Errors: the same, and those of read_model.
  static result<speed_prior> read(const std::filesystem::path& file);

  /// MQK-2. About a millisecond of a core.
  std::optional<machine_speed> ask(const io::perf::hw_profile& machine);

 private:
  explicit speed_prior(ModelT model) : model_(std::move(model)) {}

  predictor model_;
};

}  // namespace troupe::gpu::predict
