// What a checkpoint holds of a model folder beside the weights, so that its export is a folder that
// transformers loads: config.json, the tokenizer, how both are used.
#pragma once

#include <vector>

#include "actors/job/plan.hpp"
#include "io/base/result.hpp"
#include "io/checkpoint/save.hpp"

namespace troupe::checkpoint {

/// Of the folder that the model began from (model.path), what its makers put there is carried over;
/// torch_dtype stays theirs. The tokenizer is the one of the data, with what data.add_bos puts
/// before texts or takes away; of ready tokens, that folder's. Where it is not that folder's, its
/// ids take the place of the folder's. A tokenizer.json without a class beside it gets one, so that
/// transformers reads that file rather than guess by the model's kind. Ids beyond the model's
/// vocabulary are not written. Reads files. Errors: io, bad_data.
result<std::vector<io::checkpoint::small_file>> model_files(const train::job_plan& plan);

}  // namespace troupe::checkpoint
