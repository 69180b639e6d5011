// Gathers files by the names that model folders give them. See model_files.hpp.
#include "actors/checkpoint/model_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/formats/hf_config.hpp"
#include "io/formats/model_folder.hpp"
#include "io/tokenizer/other_tokenizers.hpp"
#include "io/tokenizer/text_frame.hpp"

namespace troupe::checkpoint {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

namespace {

/// As many as a job may read of one (io/tokenizer/make_tokenizer.cpp): else its saves would fail.
constexpr size_t max_tokenizer_bytes = 256 << 20;

class gathering {
 public:
  void add(std::string_view name, std::string content) {
    files_.push_back({std::string(name), std::move(content)});
  }

  /// The file `from`, under `name`.
  status copy(const fs::path& from, std::string_view name) {
    TROUPE_TRY(content, io::read_file(from, max_tokenizer_bytes));
    add(name, std::move(content));
    return {};
  }

  /// Those of the names that `folder` has and nobody has given yet.
  template <class Names>
  status copy_from(const fs::path& folder, const Names& names) {
    for (std::string_view name : names) {
      std::error_code ignored;
      if (has(name) || !fs::is_regular_file(folder / name, ignored)) continue;
      TROUPE_CHECK(copy(folder / name, name));
    }
    return {};
  }

  /// Null: nobody has given it.
  std::string* find(std::string_view name) {
    const auto found =
        std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return f.name == name; });
    return found == files_.end() ? nullptr : &found->content;
  }
  bool has(std::string_view name) { return find(name) != nullptr; }

  std::vector<cp::small_file> take() { return std::move(files_); }

 private:
  std::vector<cp::small_file> files_;
};

/// What a tokenizer's file is called in a model folder: its own name says what it is, but for a
/// prefix that some put before it.
std::string canonical_name(const fs::path& file) {
  if (file.extension() == ".json") return "tokenizer.json";
  if (file.extension() == ".model") return "tokenizer.model";
  return file.filename().string();
}

bool is_of_gpt2_pair(const fs::path& file) {
  const auto name = file.filename().string();
  return name.ends_with("vocab.json") || name.ends_with("merges.txt");
}

status add_tokenizer(gathering& to, const fs::path& source) {
  std::error_code ignored;
  const bool folder = fs::is_directory(source, ignored);
  const auto beside = folder ? source : source.parent_path();
  if (folder || is_of_gpt2_pair(source))
    TROUPE_CHECK(to.copy_from(beside, io::tokenizer_files));
  else
    TROUPE_CHECK(to.copy(source, canonical_name(source)));
  return to.copy_from(beside, io::tokenizer_companions);
}

void add_byte_tokenizer(gathering& to) {
  to.add("tokenizer.json", io::byte_tokenizer_json());
  to.add("tokenizer_config.json",
         "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
         "  \"clean_up_tokenization_spaces\": false\n}\n");
}

/// A tokenizer's word for an id: the text of the added token, else of the token.
std::optional<std::string> word_of(const json& pipeline, const io::tokenizer& words, int32_t id) {
  const auto added = pipeline.find("added_tokens");
  if (added != pipeline.end() && added->is_array())
    for (const auto& token : *added)
      if (token.is_object() && token.value("id", json()) == id &&
          token.value("content", json()).is_string())
        return token["content"].get<std::string>();
  auto text = words.decode(std::array{id});
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

/// Those of the job's tokenizer. Null where it is not read here, as for ready tokens of a Unigram
/// or a WordPiece: who needs it has refused that before this, and a save does not.
io::tokenizer_ptr words_of(const config::job& job) {
  auto words = train::tokenizer_of(job);
  if (train::ready_tokens(job) && words && !*words && !job.model.path.empty())
    words = io::make_tokenizer(job.model.path);
  return words ? std::move(*words) : nullptr;
}

/// tokenizer.json alone makes the ids, whatever the kind of the model. Without a class beside it
/// transformers takes that of config.json's model_type, which parts texts by its own rules and may
/// add an end-of-text token that the embedding does not have.
status name_class(gathering& to, const train::job_plan& plan) {
  const auto* text = to.find("tokenizer.json");
  if (text == nullptr) return {};
  constexpr std::string_view name = "tokenizer_config.json";
  auto* beside = to.find(name);
  auto root = json::parse(beside != nullptr ? *beside : "{}", nullptr, false);
  if (!root.is_object()) return {};  // what needs one has refused it before this
  if (root.contains("tokenizer_class")) return {};
  root["tokenizer_class"] = "PreTrainedTokenizerFast";
  root.emplace("clean_up_tokenization_spaces", false);
  const auto words = words_of(plan.job);
  const auto pipeline = json::parse(*text, nullptr, false);
  const auto put = [&](const char* key, std::optional<int32_t> id) {
    if (!id || *id >= plan.model.vocab || root.contains(key)) return;
    if (auto word = word_of(pipeline, *words, *id)) root[key] = std::move(*word);
  };
  if (words) {
    put("bos_token", words->frame().bos);
    put("eos_token", words->end_of_text());
  }
  auto content = root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  if (beside == nullptr)
    to.add(name, std::move(content));
  else
    *beside = std::move(content);
  return {};
}

/// What the job has put before texts, or taken away, goes into the files that say so.
status put_frame(gathering& to, const train::job_plan& plan) {
  if (plan.job.data.add_bos == config::or_auto<bool>{}) return {};
  TROUPE_TRY(words, train::tokenizer_of(plan.job));
  if (!words) return {};
  if (auto* text = to.find("tokenizer.json")) {
    TROUPE_TRY(framed, io::tokenizer_json_with_frame(*text, words->frame()));
    *text = std::move(framed);
    return {};
  }
  constexpr std::string_view name = "tokenizer_config.json";
  auto* text = to.find(name);
  auto root = json::parse(text != nullptr ? *text : "{}", nullptr, false);
  if (!root.is_object()) return io::tokenizer_config_no_object();
  root["add_bos_token"] = !words->frame().first.empty();
  auto content = root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  if (text == nullptr)
    to.add(name, std::move(content));
  else
    *text = std::move(content);
  return {};
}

/// The config.json of the folder that the model began from, without the ids of its tokenizer where
/// that is another one; empty without a folder.
result<std::string> origin_of(const train::job_plan& plan) {
  if (plan.job.model.path.empty()) return std::string();
  const fs::path folder(plan.job.model.path);
  TROUPE_TRY(text, io::read_file(folder / "config.json", max_tokenizer_bytes));
  if (train::is_models_tokenizer(plan.job)) return text;
  auto root = json::parse(text, nullptr, false);
  if (!root.is_object()) return text;  // the plan has said so
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) root.erase(key);
  return root.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace

result<std::vector<cp::small_file>> model_files(const train::job_plan& plan) {
  const auto& job = plan.job;
  TROUPE_TRY(origin, origin_of(plan));
  io::hf_model_config config{.model = plan.model};
  const auto known = [&](const auto& id) { return id && *id < plan.model.vocab; };
  if (known(plan.bos_token)) config.bos_token_id = *plan.bos_token;
  if (known(plan.eos_token)) config.eos_token_ids = {*plan.eos_token};
  if (auto said = io::parse_hf_config(origin)) config.torch_dtype = said->torch_dtype;
  gathering files;
  files.add("config.json", io::format_hf_config(config, origin));
  const bool bytes = job.data.tokenizer == "bytes";
  if (!bytes)
    TROUPE_CHECK(add_tokenizer(files, job.data.tokenizer));
  else if (!train::ready_tokens(job))
    add_byte_tokenizer(files);
  else if (!job.model.path.empty())
    TROUPE_CHECK(add_tokenizer(files, job.model.path));
  TROUPE_CHECK(put_frame(files, plan));
  TROUPE_CHECK(name_class(files, plan));
  if (train::is_models_tokenizer(job))
    TROUPE_CHECK(files.copy_from(job.model.path, std::array{io::generation_config_file}));
  return files.take();
}

}  // namespace troupe::checkpoint
