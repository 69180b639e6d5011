// What goes around texts: see tokenizer.hpp. The files beside a tokenizer may say more of it than
// the tokenizer itself, and a job may say otherwise: then it is put into another's place here, and
// encodes as before.
//
// Which of them counts is what transformers 5 does: where there is a tokenizer.json, its
// post-processor alone; without one, add_bos_token and add_eos_token of tokenizer_config.json. BOS
// and EOS are that file's bos_token and eos_token, else special_tokens_map.json's, where the
// vocabulary has them.
#include "io/tokenizer/text_frame.hpp"

#include <utility>

#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "io/formats/json_text.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"

namespace troupe::io {

namespace {

/// A tokenizer in another frame.
class framed_tokenizer final : public tokenizer {
 public:
  framed_tokenizer(tokenizer_ptr inner, text_frame frame, std::optional<int32_t> end)
      : inner_(std::move(inner)), frame_(std::move(frame)), end_(end) {}

  result<std::vector<int32_t>> encode(std::string_view text) const override {
    return inner_->encode(text);
  }
  result<std::vector<int32_t>> encode_rest(std::string_view text) const override {
    return inner_->encode_rest(text);
  }
  result<std::string> decode(std::span<const int32_t> ids) const override {
    return inner_->decode(ids);
  }
  int32_t vocab_size() const noexcept override { return inner_->vocab_size(); }
  std::optional<int32_t> end_of_text() const noexcept override { return end_; }
  const text_frame& frame() const noexcept override { return frame_; }
  std::optional<int32_t> id_of(std::string_view token) const override {
    return inner_->id_of(token);
  }
  std::string name() const override { return inner_->name(); }
  uint64_t fingerprint() const noexcept override {
    const auto more = [](uint64_t hash, std::span<const int32_t> ids) {
      return XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), hash + 1);
    };
    uint64_t hash = more(more(inner_->fingerprint(), frame_.first), frame_.last);
    if (end_) hash = more(hash, std::span(&*end_, 1));
    return hash;
  }
  text_cuts cuts() const noexcept override { return inner_->cuts(); }

 private:
  tokenizer_ptr inner_;
  text_frame frame_;
  std::optional<int32_t> end_;
};

bool same(const text_frame& a, const text_frame& b) {
  return a.first == b.first && a.last == b.last && a.bos == b.bos;
}

/// The same tokenizer where nothing is other.
tokenizer_ptr in_frame(tokenizer_ptr by, text_frame frame, std::optional<int32_t> end) {
  if (same(frame, by->frame()) && end == by->end_of_text()) return by;
  return std::make_shared<framed_tokenizer>(std::move(by), std::move(frame), end);
}

/// The token that a key names: a text, or an object with its content.
std::optional<int32_t> token_of(const nlohmann::json& config, const char* key,
                                const tokenizer& by) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const auto& value = found->is_object() ? found->value("content", nlohmann::json()) : *found;
  if (!value.is_string()) return std::nullopt;
  return by.id_of(value.get_ref<const std::string&>());
}

}  // namespace

const text_frame& tokenizer::frame() const noexcept {
  static const text_frame none;
  return none;
}

std::vector<int32_t> ids_before_document(const tokenizer& by) {
  return by.frame().first;
}

std::vector<int32_t> ids_after_document(const tokenizer& by) {
  auto ids = by.frame().last;
  const auto end = by.end_of_text();
  if (end && (ids.empty() || ids.back() != *end)) ids.push_back(*end);
  return ids;
}

result<tokenizer_ptr> with_bos(tokenizer_ptr by, bool begins) {
  auto frame = by->frame();
  if (!begins) {
    frame.first.clear();
  } else if (frame.first.empty()) {
    if (!frame.bos) return no_bos(by->name());
    frame.first.push_back(*frame.bos);
  }
  const auto end = by->end_of_text();
  return in_frame(std::move(by), std::move(frame), end);
}

namespace {

/// An object of one of the files beside a tokenizer; empty where there is no file.
result<nlohmann::json> beside(std::string_view text) {
  if (text.empty()) return nlohmann::json::object();
  TROUPE_TRY(root, parse_json(text));
  if (!root.is_object()) return tokenizer_config_no_object();
  return root;
}

std::optional<bool> flag_in(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

}  // namespace

result<tokenizer_ptr> with_special_tokens(tokenizer_ptr by, std::string_view config_text,
                                          std::string_view map_text, tokenizer_source source) {
  TROUPE_TRY(config, beside(config_text));
  TROUPE_TRY(map, beside(map_text));
  const auto named = config.value("tokenizer_class", nlohmann::json());
  if (source == tokenizer_source::pair && named.is_string() &&
      !named.get_ref<const std::string&>().starts_with("GPT2"))
    return pair_of_other_class(shown(named.get<std::string>()));
  const auto token = [&](const char* key) {
    const bool told = config.contains(key) && !config[key].is_null();
    return token_of(told ? config : map, key, *by);
  };
  auto frame = by->frame();
  auto end = by->end_of_text();
  if (const auto bos = token("bos_token")) frame.bos = bos;
  if (const auto eos = token("eos_token")) end = eos;
  const auto add_bos = flag_in(config, "add_bos_token"), add_eos = flag_in(config, "add_eos_token");
  if (source != tokenizer_source::json && (add_bos || add_eos)) {
    frame.first.clear();
    frame.last.clear();
    if (add_bos.value_or(false) && frame.bos) frame.first.push_back(*frame.bos);
    if (add_eos.value_or(false) && end) frame.last.push_back(*end);
  }
  return in_frame(std::move(by), std::move(frame), end);
}

result<std::string> tokenizer_json_with_frame(std::string_view text, const text_frame& frame) {
  TROUPE_TRY(parts, parse_tokenizer_json(text));
  auto root = nlohmann::ordered_json::parse(text, nullptr, false);
  if (frame.first.empty() && frame.last.empty()) {
    root["post_processor"] = nullptr;
    return root.dump() + "\n";
  }
  nlohmann::ordered_json single = nlohmann::ordered_json::array(), specials;
  const auto put = [&](int32_t id) {
    std::string name = std::to_string(id);
    for (const auto& added : parts.added)
      if (added.id == id) name = added.content;
    for (const auto& [token, number] : parts.tokens)
      if (number == id) name = token;
    single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    specials[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  for (const int32_t id : frame.first) put(id);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const int32_t id : frame.last) put(id);
  auto pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  root["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", std::move(single)},
                            {"pair", std::move(pair)},
                            {"special_tokens", std::move(specials)}};
  return root.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::io
