// Whether what a job reads is there and is what it should be: data, tokenizer, first weights. Asked
// before a job starts; the errors are those a start would end with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/job/plan.hpp"
#include "actors/train/finding.hpp"
#include "actors/train/inputs.hpp"

namespace troupe::train {

/// What was found. Notes are what the loader tells at the start, too.
struct input_findings {
  std::vector<finding> problems;
  std::vector<std::string> notes;
  std::vector<source_share> sources;  ///< all that is trained on, counted as far as it was read
  std::vector<std::filesystem::path> files;  ///< the same; none where one of them was refused
};

/// Token files are read whole; text is found, and tokenised only where it is so short that whether
/// it is enough depends on its tokens. What a job of other machines does not find here is a note:
/// it may be there.
input_findings check_inputs(const job_plan& plan);

/// What a job names that is not there, of a job that cannot be planned: the model's folder, the
/// tokenizer, and, where this machine reads it, its data.
std::vector<finding> absent_inputs(const config::job& job);

}  // namespace troupe::train
