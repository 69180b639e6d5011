// Opening data and looking at weights.
#include "actors/train/inputs.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/printable.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::train {

namespace {

/// So many of the first tokens are shown.
constexpr uint64_t beginning_tokens = 24;
constexpr size_t beginning_characters = 80;

std::vector<std::filesystem::path> as_paths(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

io::token_format format_of(config::data_format f) {
  return f == config::data_format::llmc      ? io::token_format::llmc
         : f == config::data_format::nanogpt ? io::token_format::nanogpt
                                             : io::token_format::automatic;
}

io::text_options options_of(const config::data_section& data) {
  return {data.strip_gutenberg, data.format == config::data_format::text};
}

/// What a person should know of texts (TXT-3).
result<std::vector<std::string>> notes_of(const io::text_source& text) {
  std::vector<std::string> notes;
  TROUPE_TRY(shortened, text.left_out());
  for (const auto& s : shortened)
    notes.push_back(fmt::format("{} of {} bytes of {} are left out (data.strip_gutenberg)",
                                s.left_out_bytes, s.bytes, s.path.string()));
  if (const auto others = text.passed_over(); !others.empty())
    notes.push_back(fmt::format("files that are not text are passed over: {}, {} in all",
                                others.front().string(), others.size()));
  return notes;
}

/// What a person should know of token files (TOK-3).
std::vector<std::string> notes_of(const io::token_files& tokens) {
  std::vector<std::string> notes;
  for (const auto& file : tokens.files())
    for (const auto& doubt : file.doubts())
      notes.push_back(fmt::format("warning: {}: {}", file.path().string(), doubt));
  return notes;
}

/// How many tokens a source holds, and its notes.
struct counted_data {
  uint64_t tokens = 0;
  std::vector<std::string> notes;
};

/// The tokens that `sources` hold; of text the most it can come to: one a byte, and one or two
/// after every document.
result<counted_data> tokens_in(const job_plan& plan, const std::vector<std::string>& sources) {
  const auto paths = as_paths(sources);
  if (ready_tokens(plan.job)) {
    TROUPE_TRY(files, io::token_files::open(paths, format_of(plan.job.data.format)));
    TROUPE_CHECK(files.check_vocabulary(static_cast<uint32_t>(plan.model.vocab)));
    return counted_data{files.size(), notes_of(files)};
  }
  TROUPE_TRY(words, tokenizer_of(plan.job));
  TROUPE_TRY(text, io::text_source::open(paths, options_of(plan.job.data)));
  TROUPE_TRY(notes, notes_of(text));
  return counted_data{text.total_bytes() + 2 * text.documents().size(), std::move(notes)};
}

}  // namespace

result<opened_data> open_tokens(const config::job& job, const std::vector<std::string>& sources,
                                const tokenising& progress) {
  const auto paths = as_paths(sources);
  if (ready_tokens(job)) {
    TROUPE_TRY(files, io::token_files::open(paths, format_of(job.data.format)));
    auto notes = notes_of(files);
    return opened_data{std::move(files), std::move(notes)};
  }
  TROUPE_TRY(words, tokenizer_of(job));
  TROUPE_TRY(text, io::text_source::open(paths, options_of(job.data)));
  TROUPE_TRY(notes, notes_of(text));
  io::corpus_options options;
  if (progress)
    options.progress = [&](const io::corpus_progress& p) {
      progress(p);
      return true;
    };
  TROUPE_TRY(cached, io::cached_corpus(text, *words, job.data.cache, options));
  const std::array files{cached};
  TROUPE_TRY(tokens, io::token_files::open(files, io::token_format::llmc));
  return opened_data{std::move(tokens), std::move(notes)};
}

std::string beginning_of(const config::job& job, const io::token_files& tokens) {
  std::vector<int32_t> ids(std::min<uint64_t>(tokens.size(), beginning_tokens));
  tokens.copy(0, ids.size(), ids.data());
  auto words = tokenizer_of(job);
  if (words && *words)
    if (auto text = (*words)->decode(ids))
      return fmt::format("\"{}\"", printable(*text, beginning_characters));
  return fmt::format("tokens {}", fmt::join(ids.begin(), ids.end(), " "));
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

result<std::vector<std::string>> check_inputs(const job_plan& plan) {
  const auto& job = plan.job;
  TROUPE_TRY(data, tokens_in(plan, job.data.path));
  TROUPE_CHECK(order_of(job, data.tokens, false));
  auto notes = std::move(data.notes);
  if (!job.data.validation_path.empty()) {
    TROUPE_TRY(held_out, tokens_in(plan, job.data.validation_path));
    TROUPE_CHECK(order_of(job, held_out.tokens, true));
    notes.insert(notes.end(), held_out.notes.begin(), held_out.notes.end());
  }
  const bool pretrained = !job.model.path.empty() && job.model.init != config::weight_init::random;
  if (pretrained) TROUPE_CHECK(io::tensor_store::open(job.model.path));
  return notes;
}

}  // namespace troupe::train
