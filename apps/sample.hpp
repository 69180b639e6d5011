// Text from a checkpoint: what `troupe generate` and the summary of `troupe up` share.
//
// Invariants
//   TXM-1 What goes before a prompt is what went before documents in training, of a Hugging Face
//     folder what transformers puts there. A text ends at generation_config.json's eos_token_id,
//     else config.json's, else the tokenizer's.
//   TXM-2 Only ids that the tokenizer knows are picked, however wide the model's vocabulary is.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/generate.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// How to pick tokens; what is not said is as the folder's generation_config.json says, and where
/// there is none, the plain softmax.
struct picking {
  std::optional<double> temperature = {};
  std::optional<int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> repetition_penalty = {};
  uint64_t seed = 1234;
  int64_t max_tokens = 64;
};

struct sample_options {
  /// A checkpoint of ours, a folder of such or of a run (its newest one counts), or a Hugging Face
  /// folder.
  std::string checkpoint;
  std::string tokenizer;  ///< empty: the one the checkpoint was trained with, or the folder's own
  picking pick;
  std::string device = "host";  ///< or cuda, cuda:N: where it is computed
  int threads = 0;
  gpu::dtype compute = gpu::dtype::f32;  ///< f32 or bf16
  std::function<bool()> wanted;          ///< asked between steps of work; false ends it: cancelled
};

/// What follows a prompt.
struct continuation {
  std::string text;
  std::vector<int32_t> tokens;  ///< its ids, without the one that ended it
};

/// A model and its tokenizer in memory.
class text_model {
 public:
  /// Errors: not_found; bad_data; bad_config where no tokenizer is known; usage for a device that
  /// is no name, unavailable for one that is not there; cancelled.
  static result<std::unique_ptr<text_model>> open(const sample_options& options);
  ~text_model();

  /// What the model goes on with. `on_text` sees it piece by piece, whole characters only.
  /// Errors: usage for a prompt without a token; cancelled.
  result<continuation> go_on(const std::string& prompt,
                             const std::function<void(std::string_view)>& on_text = {});

  /// What of the folder's generation_config.json is not done, a sentence each.
  const std::vector<std::string>& notes() const;

  /// The folder that was opened.
  const std::filesystem::path& folder() const;

 private:
  struct parts;
  explicit text_model(std::unique_ptr<parts> made);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::apps
