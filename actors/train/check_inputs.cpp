// Finding data, and bounds on what it comes to.
#include "actors/train/check_inputs.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "actors/job/catalog.hpp"
#include "actors/train/inputs.hpp"
#include "io/data/document_reader.hpp"
#include "io/data/overlap.hpp"
#include "io/file.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::train {

namespace {

/// No tokenizer's tokens are longer on average: of so many bytes there is at least one token.
constexpr uint64_t most_bytes_a_token = 32;
/// Records whose text is less than this part of them are not made for training on it.
constexpr uint64_t most_record_overhead = 16;

/// One of data.path and data.validation_path.
struct source_facts {
  std::vector<std::filesystem::path> files;
  uint64_t tokens = 0;  ///< of text the least it comes to, unless it was counted
  std::vector<std::string> notes;
};

struct source_key {
  const char* key;
  const std::vector<std::string>& names;
  bool validation;
};

result<source_facts> look_at_tokens(const job_plan& plan, const source_key& source) {
  TROUPE_TRY(tokens, find_tokens(plan.job, source.names));
  TROUPE_CHECK(tokens.check_vocabulary(static_cast<uint32_t>(plan.model.vocab)));
  source_facts out;
  out.tokens = tokens.size();
  out.notes = notes_of(tokens);
  for (const auto& file : tokens.files()) out.files.push_back(file.path());
  return out;
}

/// Of text it is not known how many tokens it comes to; it is counted where so few bytes may be too
/// few. Of records only a part may be text, and of what is packed there are no fewer bytes.
result<source_facts> look_at_text(const job_plan& plan, const source_key& source,
                                  const io::tokenizer& words) {
  TROUPE_TRY(text, find_text(plan.job, source.names));
  source_facts out;
  TROUPE_TRY(notes, notes_of(text));
  out.notes = std::move(notes);
  for (const auto& file : text.files()) out.files.push_back(file.path);
  TROUPE_CHECK(io::check_first_records(text));
  const auto bytes_a_token = most_bytes_a_token * (text.has_records() ? most_record_overhead : 1);
  out.tokens = text.total_bytes() / bytes_a_token;
  if (order_of(plan.job, out.tokens, source.validation)) return out;
  TROUPE_TRY(counted, io::count_tokens(text, words));
  out.tokens = counted;
  return out;
}

class input_check {
 public:
  explicit input_check(const job_plan& plan) : plan_(plan), data_(plan.job.data) {}

  input_findings run() {
    if (ready_tokens(plan_.job))
      find_tokenizer_to_copy();
    else
      find_tokenizer();
    const auto training = look({"data.path", data_.path, false});
    if (!data_.validation_path.empty()) {
      const auto held_out = look({"data.validation_path", data_.validation_path, true});
      if (training && held_out) check_overlap(*training, *held_out);
    }
    const auto& model = plan_.job.model;
    const bool from_folder = !model.path.empty() && !checkpoint::is_checkpoint(model.path);
    if (from_folder && model.init != config::weight_init::random)
      if (auto weights = io::tensor_store::open(model.path); !weights)
        refuse("model.path", weights.error());
    return std::move(out_);
  }

 private:
  void find_tokenizer() {
    auto words = tokenizer_of(plan_.job);
    if (!words) return refuse("data.tokenizer", words.error());
    if (auto encoded = (*words)->encode("a"); !encoded)
      return refuse("data.tokenizer", encoded.error());
    words_ = *words;
    if (words_->vocab_size() > plan_.model.vocab)
      refuse("model.vocab", {errc::bad_config,
                             fmt::format("the model has {} tokens, and the tokenizer makes {}",
                                         plan_.model.vocab, words_->vocab_size()),
                             "leave model.vocab out, or use the model's own tokenizer"});
  }

  /// Training does not read it, but each checkpoint has a copy of it, which the head makes.
  void find_tokenizer_to_copy() {
    const auto& source = data_.tokenizer;
    std::error_code ignored;
    if (source == "bytes" || source.empty() || std::filesystem::is_directory(source, ignored))
      return;
    if (auto file = io::open_read(source); !file)
      out_.problems.push_back({"data.tokenizer", file.error()});
  }

  std::optional<source_facts> look(const source_key& source) {
    if (!ready_tokens(plan_.job) && !words_) return {};
    auto facts = words_ ? look_at_text(plan_, source, *words_) : look_at_tokens(plan_, source);
    if (!facts) return refuse(source.key, facts.error()), std::nullopt;
    for (auto& note : facts->notes)
      out_.notes.push_back(
          fmt::format("{}: {}", source.validation ? "validation data" : "data", note));
    if (auto order = order_of(plan_.job, facts->tokens, source.validation); !order)
      refuse(source.key, order.error());
    return *facts;
  }

  void check_overlap(const source_facts& training, const source_facts& held_out) {
    auto both = io::shared_file(held_out.files, training.files);
    if (!both) return refuse("data.validation_path", both.error());
    if (!*both) return;
    const auto& [one, other] = **both;
    refuse("data.validation_path",
           {errc::bad_config,
            one == other
                ? fmt::format("{} is trained on, too", one.string())
                : fmt::format("{} is trained on, too: it is {}", one.string(), other.string()),
            "take it out of data.path; or hold a share out: data.validation_fraction"});
  }

  void refuse(std::string key, error why) {
    const bool elsewhere = plan_.job.cluster.launch != config::launch_mode::local;
    if (elsewhere && why.code == errc::not_found)
      out_.notes.push_back(fmt::format("{}: not on this machine: {}", key, why.message));
    else
      out_.problems.push_back({std::move(key), std::move(why)});
  }

  const job_plan& plan_;
  const config::data_section& data_;
  io::tokenizer_ptr words_;
  input_findings out_;
};

}  // namespace

input_findings check_inputs(const job_plan& plan) {
  return input_check(plan).run();
}

}  // namespace troupe::train
