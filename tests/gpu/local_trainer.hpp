// Training in one process, without engines and actors.
//
// Why: the mathematics has to be comparable with PyTorch apart from everything that talks.
// Pipeline stages, micro-batches and tied heads work as in a cluster, except that activations are
// copied from stage to stage on one device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/ops.hpp"
#include "gpu/optim/optimizer.hpp"
#include "gpu/swap/swapper.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

struct local_options {
  int64_t stages = 1;
  int64_t micro_batch = 1;    ///< B
  int64_t micro_batches = 1;  ///< per step
  int64_t seq = 1;            ///< T
  int threads = 0;            ///< host threads of the stream; 0: all the device has
  dtype compute = dtype::f32;
  bool recompute = false;
  bool documents = false;                           ///< as in stage_shape
  std::vector<activation_choice> activations = {};  ///< by layer of the model; or empty
  decay_scope decay = decay_scope::matrices;
  optimizer_settings optimizer{};
  std::optional<uint64_t> rounding_seed = {};  ///< as in store_options
  /// Where masters, moments and weights live, a folder a stage; empty: in memory. Gradients are in
  /// memory all the same, for their norm comes before the first update.
  std::filesystem::path swap = {};
};

/// What a step did.
struct local_step {
  double loss = 0;  ///< mean over the targets, before the update
  double norm = 0;  ///< of all gradients, before clipping
};

class local_trainer {
 public:
  static result<std::unique_ptr<local_trainer>> make(device& owner, const model_config& model,
                                                     const local_options& options);

  size_t stage_count() const noexcept { return stages_.size(); }
  stage_model& stage(size_t i) { return *stages_[i]; }
  stream& compute() noexcept { return *stream_; }
  /// The swapper of a stage, where there is one.
  const swapper& drive_of(size_t i) const { return *swappers_[i]; }

  /// One optimizer step on micro_batches * micro_batch rows of seq tokens and as many targets; of
  /// all those rows, the documents where they hold several. Blocks.
  result<local_step> step(const int32_t* tokens, const int32_t* targets, float lr,
                          const row_documents& documents = {});

  /// Forward and backward of a step without the update: gradients stay. Blocks.
  result<local_step> accumulate(const int32_t* tokens, const int32_t* targets,
                                const row_documents& documents = {});

  /// Gradient norm of every tensor as of the last step or accumulate.
  result<std::map<std::string, double>> tensor_norms();

  /// Zeroes all gradients.
  status clear_gradients();

 private:
  local_trainer(device& owner, const local_options& options) : owner_(owner), options_(options) {}

  status swap_stage(const residency& where);
  void micro_batch(const stage_model::micro_batch& batch, float scale);
  void sum_tied_gradients();
  int64_t targets_per_step() const noexcept;
  void enqueue_gradients(const int32_t* tokens, const int32_t* targets,
                         const row_documents& documents);
  result<local_step> outcome();

  device& owner_;
  local_options options_;
  std::unique_ptr<stream> stream_;
  std::vector<std::unique_ptr<stage_model>> stages_;
  std::vector<std::unique_ptr<optimizer>> optimizers_;
  std::vector<std::unique_ptr<swapper>> swappers_;  ///< of the stages, where there are any
  int64_t steps_ = 0;
  double norm_squared_ = 0;  ///< of all stages
  /// Where the stream puts what a step reports: the sum of losses, then each stage's squared norm.
  std::vector<double> read_;
  std::shared_ptr<void> read_pinned_;
};

}  // namespace troupe::gpu
