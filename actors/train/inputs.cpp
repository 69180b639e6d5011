// Opening data and looking at weights.
#include "actors/train/inputs.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/tokenizer/utf8.hpp"

namespace troupe::train {

namespace {

/// So many of the first tokens are shown.
constexpr uint64_t beginning_tokens = 24;
constexpr size_t beginning_characters = 80;

/// Without the character that a text ends in the midst of: tokens may be parts of one.
std::string_view whole_characters(std::string_view text) {
  const auto bad = io::find_invalid_utf8(text);
  if (bad == text.npos || static_cast<unsigned char>(text[bad]) < 0xc2) return text;
  return bad + io::utf8_length(text[bad]) > text.size() ? text.substr(0, bad) : text;
}

io::token_format format_of(config::data_format f) {
  return f == config::data_format::llmc      ? io::token_format::llmc
         : f == config::data_format::nanogpt ? io::token_format::nanogpt
                                             : io::token_format::automatic;
}

}  // namespace

result<io::token_files> find_tokens(const config::job& job, const config::source_spec& source) {
  const std::vector<std::filesystem::path> paths(source.path.begin(), source.path.end());
  return io::token_files::open(paths, format_of(job.data.format));
}

result<io::text_source> find_text(const config::job& job, const config::source_spec& source) {
  const std::vector<std::filesystem::path> paths(source.path.begin(), source.path.end());
  const auto format = job.data.format;
  const auto form = format == config::data_format::text   ? io::text_form::text
                    : format == config::data_format::json ? io::text_form::records
                                                          : io::text_form::automatic;
  return io::text_source::open(paths, {job.data.strip_gutenberg, form, source.text_field});
}

result<std::vector<std::string>> notes_of(const io::text_source& text) {
  std::vector<std::string> notes;
  TROUPE_TRY(shortened, text.left_out());
  uint64_t left_out = 0;
  for (const auto& s : shortened) left_out += s.left_out_bytes;
  if (shortened.size() == 1)
    notes.push_back(fmt::format("{} of {} bytes of {} are left out (data.strip_gutenberg)",
                                left_out, shortened[0].bytes, shortened[0].path.string()));
  else if (!shortened.empty())
    notes.push_back(
        fmt::format("{} bytes of {} files are left out (data.strip_gutenberg): {} of {} of {}, ...",
                    left_out, shortened.size(), shortened[0].left_out_bytes, shortened[0].bytes,
                    shortened[0].path.string()));
  if (const auto others = text.passed_over(); !others.empty())
    notes.push_back(fmt::format("files that are not text are skipped: {}, {} in all",
                                others.front().string(), others.size()));
  if (const auto plain = text.beside_records(); !plain.empty())
    notes.push_back(fmt::format(
        "plain text beside records is skipped: {}, {} in all; named in data.path it is read",
        plain.front().string(), plain.size()));
  return notes;
}

std::vector<std::string> notes_of(const io::token_files& tokens) {
  std::vector<std::string> notes;
  if (const auto others = tokens.passed_over(); !others.empty())
    notes.push_back(fmt::format("files that hold no tokens are skipped: {}, {} in all",
                                others.front().string(), others.size()));
  for (const auto& file : tokens.files())
    for (const auto& doubt : file.doubts())
      notes.push_back(fmt::format("warning: {}: {}", file.path().string(), doubt));
  return notes;
}

result<opened_data> open_tokens(const config::job& job, const config::source_spec& source,
                                const tokenising& progress) {
  if (ready_tokens(job)) {
    TROUPE_TRY(files, find_tokens(job, source));
    auto notes = notes_of(files);
    return opened_data{std::move(files), std::move(notes)};
  }
  TROUPE_TRY(words, tokenizer_of(job));
  TROUPE_TRY(text, find_text(job, source));
  TROUPE_TRY(notes, notes_of(text));
  io::corpus_options options;
  options.progress = progress;
  TROUPE_TRY(cached, io::cached_corpus(text, *words, job.data.cache, options));
  TROUPE_TRY(tokens, io::token_files::open(cached, io::token_format::llmc));
  return opened_data{std::move(tokens), std::move(notes)};
}

std::string beginning_of(const config::job& job, const io::token_files& tokens) {
  std::vector<int32_t> ids(std::min<uint64_t>(tokens.size(), beginning_tokens));
  tokens.copy(0, ids.size(), ids.data());
  auto words = tokenizer_of(job);
  if (words && *words)
    if (auto text = (*words)->decode(ids))
      return fmt::format("\"{}\"",
                         printable(ids.size() < tokens.size() ? whole_characters(*text) : *text,
                                   beginning_characters));
  return fmt::format("tokens {}", fmt::join(ids.begin(), ids.end(), " "));
}

std::string documents_text(uint64_t tokens, uint64_t ends, int32_t document_end) {
  if (ends == 0)
    return fmt::format(
        "warning: none of all {} tokens is {}, which ends a document: sequences without it are "
        "attended to as one",
        tokens, document_end);
  return fmt::format("attention is reset behind token {}, which is one of {} of all {}",
                     document_end, tokens / ends, tokens);
}

namespace {

/// Of source number `source`: each has its own permutation, the first that of a job with one.
result<io::batch_order> order_in_mix(const config::job& job, uint64_t tokens, bool validation_file,
                                     data_position from, size_t source) {
  io::batch_order_spec spec;
  spec.tokens = tokens;
  spec.seq_len = static_cast<uint32_t>(job.train.seq_len);
  spec.batch_rows = static_cast<uint32_t>(job.train.batch);
  spec.first_step = from.first_step;
  spec.first_row = from.first_row;
  spec.skipped = std::move(from.skipped);
  spec.shuffle = job.data.shuffle && !validation_file;
  spec.seed = static_cast<uint64_t>(job.job.seed) + source * 0x9E3779B97F4A7C15ULL;
  const bool split = !validation_file && job.data.validation_path.empty();
  spec.validation_fraction = split ? job.data.validation_fraction : 0.0;
  return io::batch_order::make(spec);
}

}  // namespace

result<io::batch_order> order_of(const config::job& job, uint64_t tokens, bool validation_file,
                                 data_position from) {
  return order_in_mix(job, tokens, validation_file, std::move(from), 0);
}

result<io::mixed_order> mixed_order_of(const config::job& job, std::span<const uint64_t> tokens,
                                       const data_position& from) {
  const auto sources = job.data.sources();
  std::vector<io::batch_order> orders;
  for (size_t s = 0; s < sources.size(); ++s) {
    auto order = order_in_mix(job, tokens[s], false, from, s);
    if (!order && sources[s].name.empty()) return order.error();
    if (!order) return order.error().within(sources[s].name);
    orders.push_back(std::move(*order));
  }
  return io::mixed_order(std::move(orders), mix_of(job.data));
}

io::source_mix mix_of(const config::data_section& data) {
  std::vector<double> weights;
  for (const auto& source : data.sources()) weights.push_back(source.weight);
  return io::source_mix(weights);
}

source_share source_share_of(const config::job& job, const io::source_mix& mix, size_t source,
                             const io::batch_order* order) {
  source_share out{job.data.sources()[source], mix.share(source),
                   mix.before(source, static_cast<uint64_t>(job.train.steps * job.train.batch))};
  if (order == nullptr) return out;
  const auto windows = order->train_windows();
  out.counted =
      source_share::counts{order->spec().tokens, windows, order->validation_windows(),
                           static_cast<double>(out.windows) / static_cast<double>(windows)};
  return out;
}

std::vector<source_share> source_shares_of(const config::job& job) {
  const auto mix = mix_of(job.data);
  std::vector<source_share> out;
  for (size_t s = 0; s < mix.sources(); ++s) out.push_back(source_share_of(job, mix, s, nullptr));
  return out;
}

std::string share_text(const config::job& job, const source_share& s) {
  const auto steps = counted(job.train.steps, "step");
  auto text = fmt::format("{:.4g} % of the windows", 100 * s.share);
  if (!s.counted) return text + fmt::format(", {} in {}", s.windows, steps);
  const auto& c = *s.counted;
  text += fmt::format(", {} in {}, {} held out; {:.{}f} passes over {}", counted(c.tokens, "token"),
                      counted(c.train_windows, "training window"), c.validation_windows, c.passes,
                      c.passes < 10 ? 2 : 0, steps);
  if (s.windows > c.train_windows) text += ": its windows repeat";
  return text;
}

std::string said_of(const config::source_spec& source) {
  return source.name.empty() ? "data" : fmt::format("data ({})", source.name);
}

}  // namespace troupe::train
