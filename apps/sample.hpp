// Text from a checkpoint: what `troupe generate` and the summary of `troupe up` share.
#pragma once

#include <functional>
#include <string>

#include "gpu/model/generate.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

struct sample_options {
  std::string checkpoint;  ///< a checkpoint of ours or a Hugging Face folder
  std::string tokenizer;   ///< empty: the one the checkpoint was trained with, or the folder's own
  std::string prompt;
  gpu::generate_options generate;
  int threads = 0;
  std::function<bool()> wanted;  ///< asked between loading and tokens; false ends it: cancelled
};

/// The text that follows the prompt. `on_text` sees it piece by piece. Errors: not_found, bad_data;
/// bad_config where no tokenizer is known.
result<std::string> sample(const sample_options& options,
                           const std::function<void(std::string_view)>& on_text = {});

}  // namespace troupe::apps
