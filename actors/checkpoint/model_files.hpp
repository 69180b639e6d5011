// What a checkpoint holds of a model folder beside the weights, so that its export is a folder that
// transformers loads: config.json, the tokenizer, how both are used.
#pragma once

#include <vector>

#include "actors/job/plan.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/save.hpp"

namespace troupe::checkpoint {

/// Of the folder that the model began from (model.path), what its makers put there is carried over;
/// torch_dtype stays theirs. The tokenizer is the one of the data; of ready tokens, that folder's.
/// Reads files. Errors: io.
result<std::vector<io::checkpoint::small_file>> model_files(const train::job_plan& plan);

}  // namespace troupe::checkpoint
