// Finding data, and bounds on what it comes to.
#include "actors/train/check_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/job/catalog.hpp"
#include "gpu/model/hf_folder.hpp"
#include "io/data/corpus.hpp"
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

/// Of one of the sources, or of data.validation_path.
struct source_facts {
  std::vector<std::filesystem::path> files;
  uint64_t tokens = 0;  ///< of text the least it comes to, unless it was counted
  bool counted = true;
  std::vector<std::string> notes;
};

struct source_key {
  const char* key;
  const config::source_spec& spec;
  bool validation;
  size_t number = 0;  ///< of the source
};

result<source_facts> look_at_tokens(const job_plan& plan, const source_key& source) {
  TROUPE_TRY(tokens, find_tokens(plan.job, source.spec));
  TROUPE_TRY(document_end, document_end_of(plan.job, plan.model.vocab));
  TROUPE_TRY(ends, tokens.check_and_count(static_cast<uint32_t>(plan.model.vocab),
                                          document_end.value_or(0)));
  source_facts out;
  out.tokens = tokens.size();
  out.notes = notes_of(tokens);
  if (document_end) out.notes.push_back(documents_text(out.tokens, ends, *document_end));
  for (const auto& file : tokens.files()) out.files.push_back(file.path());
  return out;
}

/// What tokenising takes of a text that is not cut; Llama 2's words took 35 bytes a byte.
constexpr uint64_t memory_bytes_a_byte = 36;
/// Of less nothing is said.
constexpr uint64_t long_piece_bytes = uint64_t{64} << 20;

std::optional<std::string> one_piece_note(const io::text_source& text, const io::tokenizer& by) {
  if (by.cuts() != io::text_cuts::nowhere) return std::nullopt;
  uint64_t longest = 0;
  std::error_code ignored;
  for (const auto& file : text.files())
    if (!file.records) {
      const auto bytes = std::filesystem::file_size(file.path, ignored);
      if (!ignored) longest = std::max<uint64_t>(longest, bytes);
    }
  if (longest < long_piece_bytes) return std::nullopt;
  return fmt::format(
      "warning: this tokenizer takes a text in one piece, by one thread: the longest of {} MiB may "
      "take {} GiB of memory; records of JSON are tokenised one by one",
      longest >> 20, (longest * memory_bytes_a_byte >> 30) + 1);
}

/// Of text it is not known how many tokens it comes to; it is counted where so few bytes may be too
/// few. Of records only a part may be text, and of what is packed there are no fewer bytes.
result<source_facts> look_at_text(const job_plan& plan, const source_key& source,
                                  const io::tokenizer& words) {
  TROUPE_TRY(text, find_text(plan.job, source.spec));
  source_facts out;
  TROUPE_TRY(notes, notes_of(text));
  out.notes = std::move(notes);
  for (const auto& file : text.files()) out.files.push_back(file.path);
  TROUPE_CHECK(io::check_first_records(text));
  TROUPE_CHECK(io::check_first_texts(text, words));
  TROUPE_CHECK(io::check_cuts(text, words));
  if (auto note = one_piece_note(text, words)) out.notes.push_back(std::move(*note));
  const auto bytes_a_token = most_bytes_a_token * (text.has_records() ? most_record_overhead : 1);
  out.tokens = text.total_bytes() / bytes_a_token;
  out.counted = false;
  if (order_of(plan.job, out.tokens, source.validation)) return out;
  TROUPE_TRY(counted, io::count_tokens(text, words));
  out.tokens = counted;
  out.counted = true;
  return out;
}

/// How it ended alone.
template <class T>
status ended(const result<T>& what) {
  return what ? status() : status(what.error());
}

class input_check {
 public:
  explicit input_check(const job_plan& plan) : plan_(plan), data_(plan.job.data) {
    out_.sources = source_shares_of(plan.job);
  }

  input_findings run() {
    if (ready_tokens(plan_.job))
      find_tokenizer_to_copy();
    else
      find_tokenizer();
    const auto training = look_at_sources();
    if (!data_.validation_path.empty()) {
      const auto spec = data_.validation();
      const auto held_out = look({"data.validation_path", spec, true});
      if (held_out && !training.empty()) check_overlap(training, *held_out);
    }
    out_.files = training;
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
    const auto& folder = plan_.job.model.path;
    if (words_->vocab_size() <= plan_.model.vocab) return;
    if (!folder.empty())  // whose tokens nobody sets
      refuse("data.tokenizer",
             {errc::bad_config,
              fmt::format("the model of {} has {} tokens, and the tokenizer makes {}", folder,
                          plan_.model.vocab, words_->vocab_size()),
              "use the model's own tokenizer"});
    else
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
    const auto within = [&](const error& why) {
      return source.spec.name.empty() ? why : why.within(source.spec.name);
    };
    if (!facts) return refuse(source.key, within(facts.error())), std::nullopt;
    const auto which = source.validation ? "validation data" : said_of(source.spec);
    for (auto& note : facts->notes) out_.notes.push_back(fmt::format("{}: {}", which, note));
    const auto order = order_of(plan_.job, facts->tokens, source.validation);
    if (!order) {
      const auto& spec = source.spec;
      auto whose = spec.name.empty() ? fmt::format("{}", fmt::join(spec.path, ", ")) : spec.name;
      return refuse(source.key, order.error().within(whose)), *facts;
    }
    if (source.validation) return *facts;
    auto& share = out_.sources[source.number];
    if (facts->counted) share = source_share_of(plan_.job, mix_of(data_), source.number, &*order);
    if (!source.spec.name.empty())
      out_.notes.push_back(fmt::format("{}: {}", which, share_text(plan_.job, share)));
    return *facts;
  }

  /// The files of all of them; none where one was refused.
  std::vector<std::filesystem::path> look_at_sources() {
    const auto sources = data_.sources();
    const char* key = data_.source.empty() ? "data.path" : "data.source";
    std::vector<std::filesystem::path> files;
    bool sound = true;
    for (size_t s = 0; s < sources.size(); ++s) {
      const auto facts = look({key, sources[s], false, s});
      sound &= facts.has_value();
      if (!facts) continue;
      check_apart(sources[s], facts->files, files);
      files.insert(files.end(), facts->files.begin(), facts->files.end());
    }
    if (!sound) files.clear();
    return files;
  }

  /// A file in two sources would be held out of one of them, and trained on in the other.
  void check_apart(const config::source_spec& source, const std::vector<std::filesystem::path>& its,
                   const std::vector<std::filesystem::path>& others) {
    auto both = io::shared_file(its, others);
    if (!both) return refuse("data.source", both.error());
    if (!*both) return;
    refuse("data.source",
           {errc::bad_config,
            fmt::format("{} of {} is in another source, too", (*both)->first.string(), source.name),
            "name it in one of them, which may have more weight"});
  }

  void check_overlap(const std::vector<std::filesystem::path>& training,
                     const source_facts& held_out) {
    auto both = io::shared_file(held_out.files, training);
    if (!both) return refuse("data.validation_path", both.error());
    if (!*both) return;
    const auto& [one, other] = **both;
    refuse("data.validation_path",
           {errc::bad_config,
            one == other
                ? fmt::format("{} is trained on, too", one.string())
                : fmt::format("{} is trained on, too: it is {}", one.string(), other.string()),
            "take it out of what is trained on; or hold a share out: data.validation_fraction"});
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

std::vector<finding> absent_inputs(const config::job& job) {
  std::vector<finding> out;
  const auto note = [&](const char* key, const error& why) {
    if (why.code == errc::not_found) out.push_back({key, not_fetched(why)});
  };
  if (!job.model.path.empty())
    if (const auto model = gpu::read_folder_model(job.model.path); !model)
      note("model.path", model.error());
  const bool here = job.cluster.launch == config::launch_mode::local;
  const bool has_vocabulary = job.model.vocab > 0 || !job.model.path.empty();
  if (here || !has_vocabulary)
    if (const auto words = tokenizer_of(job); !words) note("data.tokenizer", words.error());
  if (!here) return out;
  const auto look_for = [&](const char* key, const config::source_spec& spec) {
    const auto found =
        ready_tokens(job) ? ended(find_tokens(job, spec)) : ended(find_text(job, spec));
    if (!found) note(key, spec.name.empty() ? found.error() : found.error().within(spec.name));
  };
  for (const auto& spec : job.data.sources())
    look_for(job.data.source.empty() ? "data.path" : "data.source", spec);
  if (!job.data.validation_path.empty()) look_for("data.validation_path", job.data.validation());
  return out;
}

}  // namespace troupe::train
