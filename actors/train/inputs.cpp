// Opening data and looking at weights.
#include "actors/train/inputs.hpp"

#include <array>

#include "io/formats/safetensors.hpp"

namespace troupe::train {

namespace {

std::vector<std::filesystem::path> as_paths(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

io::token_format format_of(config::data_format f) {
  return f == config::data_format::llmc      ? io::token_format::llmc
         : f == config::data_format::nanogpt ? io::token_format::nanogpt
                                             : io::token_format::automatic;
}

/// The tokens that `sources` hold; of text the most it can come to: one a byte, and one or two
/// after every document.
result<uint64_t> tokens_in(const job_plan& plan, const std::vector<std::string>& sources) {
  const auto paths = as_paths(sources);
  if (ready_tokens(plan.job)) {
    TROUPE_TRY(files, io::token_files::open(paths, format_of(plan.job.data.format)));
    TROUPE_CHECK(files.check_vocabulary(static_cast<uint32_t>(plan.model.vocab)));
    return files.size();
  }
  TROUPE_TRY(words, tokenizer_of(plan.job));
  TROUPE_TRY(text, io::text_source::open(paths));
  return text.total_bytes() + 2 * text.documents().size();
}

}  // namespace

result<io::token_files> open_tokens(const config::job& job, const std::vector<std::string>& sources,
                                    const tokenising& progress) {
  if (ready_tokens(job))
    return io::token_files::open(as_paths(sources), format_of(job.data.format));
  TROUPE_TRY(words, tokenizer_of(job));
  const auto paths = as_paths(sources);
  TROUPE_TRY(text, io::text_source::open(paths));
  io::corpus_options options;
  if (progress)
    options.progress = [&](const io::corpus_progress& p) {
      progress(p);
      return true;
    };
  TROUPE_TRY(cached, io::cached_corpus(text, *words, job.data.cache, options));
  const std::array files{cached};
  return io::token_files::open(files, io::token_format::llmc);
}

result<io::batch_order> order_of(const config::job& job, uint64_t tokens, bool validation_file) {
  io::batch_order_spec spec;
  spec.tokens = tokens;
  spec.seq_len = static_cast<uint32_t>(job.train.seq_len);
  spec.batch_rows = static_cast<uint32_t>(job.train.batch);
  spec.shuffle = job.data.shuffle && !validation_file;
  spec.seed = static_cast<uint64_t>(job.job.seed);
  const bool split = !validation_file && job.data.validation_path.empty();
  spec.validation_fraction = split ? job.data.validation_fraction : 0.0;
  return io::batch_order::make(spec);
}

status check_inputs(const job_plan& plan) {
  const auto& job = plan.job;
  TROUPE_TRY(tokens, tokens_in(plan, job.data.path));
  TROUPE_CHECK(order_of(job, tokens, false));
  if (!job.data.validation_path.empty()) {
    TROUPE_TRY(held_out, tokens_in(plan, job.data.validation_path));
    TROUPE_CHECK(order_of(job, held_out, true));
  }
  const bool pretrained = !job.model.path.empty() && job.model.init != config::weight_init::random;
  if (pretrained) TROUPE_CHECK(io::tensor_store::open(job.model.path));
  return {};
}

}  // namespace troupe::train
