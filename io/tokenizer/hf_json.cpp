// tokenizer.json (and vocab.json with merges.txt) to hf_parts. What a stage means is told by
// huggingface/tokenizers' sources of the same names; a stage of another kind is refused by name.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/formats/json_text.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/utf8.hpp"

namespace troupe::io {

using json = nlohmann::json;

namespace {

constexpr size_t max_steps = 32;
constexpr size_t max_added = 1 << 16;
constexpr size_t max_short_text = 4096;

error bad(std::string text) {
  return {errc::bad_data, "tokenizer.json: " + std::move(text)};
}

error unsupported(std::string_view what, std::string_view kind) {
  return unsupported_tokenizer(what, shown(kind));
}

/// A member, or null when it is missing or not an object's.
const json& member(const json& object, const char* key) {
  static const json nothing;
  if (!object.is_object()) return nothing;
  auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

bool flag(const json& object, const char* key, bool standard) {
  const auto& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : standard;
}

result<std::string> text_of(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_string()) return tokenizer_no_text(key);
  auto text = value.get<std::string>();
  if (text.size() > max_short_text) return bad(fmt::format("\"{}\" is too long", key));
  return text;
}

std::string kind_of(const json& stage) {
  const auto& type = member(stage, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

result<split_behavior> behavior_of(const json& stage) {
  TROUPE_TRY(name, text_of(stage, "behavior"));
  if (name == "Removed") return split_behavior::removed;
  if (name == "Isolated") return split_behavior::isolated;
  if (name == "MergedWithPrevious") return split_behavior::merged_with_previous;
  if (name == "MergedWithNext") return split_behavior::merged_with_next;
  if (name == "Contiguous") return split_behavior::contiguous;
  return unsupported("split behavior", name);
}

/// {"String": text} or {"Regex": text}.
result<splitter> splitter_of(const json& pattern, split_behavior behavior, bool invert) {
  if (member(pattern, "String").is_string()) {
    TROUPE_TRY(text, text_of(pattern, "String"));
    return splitter::literal(text, behavior, invert);
  }
  const auto& regex = member(pattern, "Regex");
  if (!regex.is_string()) return bad("a pattern should be {\"String\": ...} or {\"Regex\": ...}");
  return splitter::make(regex.get_ref<const std::string&>(), behavior, invert);
}

result<replace_text> replace_of(const json& stage) {
  TROUPE_TRY(what, splitter_of(member(stage, "pattern"), split_behavior::isolated, false));
  TROUPE_TRY(by, text_of(stage, "content"));
  return replace_text{std::move(what), std::move(by)};
}

/// Calls `read` for a stage, or for each of a Sequence.
template <class Read>
status each_stage(const json& stage, const char* list, int depth, const Read& read) {
  if (stage.is_null()) return {};
  if (kind_of(stage) != "Sequence") return read(stage);
  const auto& stages = member(stage, list);
  if (!stages.is_array() || depth > 4 || stages.size() > max_steps) return tokenizer_no_list(list);
  for (const auto& inner : stages) TROUPE_CHECK(each_stage(inner, list, depth + 1, read));
  return {};
}

// -- normalizer

status read_normalizer(const json& stage, hf_parts& parts) {
  auto kind = kind_of(stage);
  if (parts.normalizers.size() >= max_steps) return bad("too many normalizers");
  if (kind == "Prepend") {
    TROUPE_TRY(text, text_of(stage, "prepend"));
    parts.normalizers.emplace_back(prepend_text{std::move(text)});
  } else if (kind == "Replace") {
    TROUPE_TRY(replace, replace_of(stage));
    parts.normalizers.emplace_back(std::move(replace));
  } else if (kind == "NFC" || kind == "NFD" || kind == "NFKC" || kind == "NFKD") {
    parts.normalizers.emplace_back(kind == "NFC"    ? unicode_form::nfc
                                   : kind == "NFD"  ? unicode_form::nfd
                                   : kind == "NFKC" ? unicode_form::nfkc
                                                    : unicode_form::nfkd);
  } else {
    return unsupported("normalizer", kind);
  }
  return {};
}

// -- pre-tokenizer

status read_byte_level(const json& stage, hf_parts& parts) {
  if (flag(stage, "add_prefix_space", true)) parts.pre_tokenizers.emplace_back(prefix_space{});
  if (flag(stage, "use_regex", true)) {
    TROUPE_TRY(by, splitter::make(gpt2_pattern, split_behavior::isolated, false));
    parts.pre_tokenizers.emplace_back(std::move(by));
  }
  parts.options.byte_level = true;
  return {};
}

status read_metaspace(const json& stage, hf_parts& parts) {
  TROUPE_TRY(letter, text_of(stage, "replacement"));
  if (letter.empty()) return bad("a Metaspace without a replacement");
  metaspace meta{.letter = letter, .scheme = metaspace::prepend::always, .words = {}};
  if (const auto& scheme = member(stage, "prepend_scheme"); scheme.is_string()) {
    if (scheme == "first")
      meta.scheme = metaspace::prepend::first;
    else if (scheme == "never")
      meta.scheme = metaspace::prepend::never;
    else if (scheme != "always")
      return unsupported("prepend_scheme", scheme.get_ref<const std::string&>());
  } else if (!flag(stage, "add_prefix_space", true)) {
    meta.scheme = metaspace::prepend::never;
  }
  if (flag(stage, "split", true)) {
    TROUPE_TRY(words, splitter::literal(letter, split_behavior::merged_with_next, false));
    meta.words = std::move(words);
  }
  parts.pre_tokenizers.emplace_back(std::move(meta));
  return {};
}

status read_pre_tokenizer(const json& stage, hf_parts& parts) {
  auto kind = kind_of(stage);
  if (parts.pre_tokenizers.size() >= max_steps) return bad("too many pre-tokenizers");
  if (parts.options.byte_level) return unsupported("pre-tokenizer after ByteLevel", kind);
  if (kind == "ByteLevel") return read_byte_level(stage, parts);
  if (kind == "Metaspace") return read_metaspace(stage, parts);
  if (kind == "Split") {
    TROUPE_TRY(behavior, behavior_of(stage));
    TROUPE_TRY(by, splitter_of(member(stage, "pattern"), behavior, flag(stage, "invert", false)));
    parts.pre_tokenizers.emplace_back(std::move(by));
    return {};
  }
  if (kind == "Digits") {
    bool single = flag(stage, "individual_digits", false);
    TROUPE_TRY(by, splitter::make(single ? "\\p{N}" : "\\p{N}+", split_behavior::isolated, false));
    parts.pre_tokenizers.emplace_back(std::move(by));
    return {};
  }
  return unsupported("pre-tokenizer", kind);
}

// -- decoder

status read_decoder(const json& stage, hf_parts& parts) {
  auto kind = kind_of(stage);
  if (parts.decoders.size() >= max_steps) return bad("too many decoders");
  if (kind == "ByteLevel") {
    parts.byte_level_decoder = true;
  } else if (kind == "Replace") {
    TROUPE_TRY(replace, replace_of(stage));
    parts.decoders.emplace_back(std::move(replace));
  } else if (kind == "ByteFallback") {
    parts.decoders.emplace_back(byte_fallback_decode{});
  } else if (kind == "Fuse") {
    parts.decoders.emplace_back(fuse_tokens{});
  } else if (kind == "Strip") {
    TROUPE_TRY(content, text_of(stage, "content"));
    auto count = [&](const char* key) -> size_t {
      const auto& n = member(stage, key);
      return n.is_number_unsigned() ? std::min<size_t>(n.get<size_t>(), 1024) : 0;
    };
    parts.decoders.emplace_back(strip_text{std::move(content), count("start"), count("stop")});
  } else if (kind == "Metaspace") {
    TROUPE_TRY(letter, text_of(stage, "replacement"));
    if (letter.empty()) return bad("a Metaspace without a replacement");
    bool never =
        member(stage, "prepend_scheme") == "never" || !flag(stage, "add_prefix_space", true);
    parts.decoders.emplace_back(metaspace_decode{std::move(letter), !never});
  } else {
    return unsupported("decoder", kind);
  }
  return {};
}

// -- model

result<int32_t> id_of(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= uint64_t{1} << 31)
    return tokenizer_no_id();
  return static_cast<int32_t>(value.get<uint64_t>());
}

result<vocabulary> read_vocabulary(const json& list) {
  if (!list.is_object() || list.empty()) return tokenizer_no_vocabulary();
  vocabulary tokens;
  tokens.reserve(list.size());
  for (const auto& [token, value] : list.items()) {
    TROUPE_TRY(id, id_of(value));
    tokens.emplace(token, id);
  }
  return tokens;
}

/// "a b", or nothing when the line is not two texts parted by one space.
std::optional<std::pair<std::string, std::string>> merge_of(std::string_view line) {
  size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == line.size())
    return std::nullopt;
  if (line.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return std::pair{std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

status read_merges(const json& list, merge_list& merges) {
  if (!list.is_array()) return bad("the model has no merges");
  merges.reserve(list.size());
  for (const auto& item : list) {
    if (item.is_string()) {
      auto pair = merge_of(item.get_ref<const std::string&>());
      if (!pair) return merge_malformed("tokenizer.json", merges.size());
      merges.push_back(std::move(*pair));
    } else if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      merges.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
    } else {
      return merge_malformed("tokenizer.json", merges.size());
    }
  }
  return {};
}

status read_model(const json& model, hf_parts& parts) {
  // Old files give no type; BPE ones have merges.
  auto kind = member(model, "type").is_null() && member(model, "merges").is_array()
                  ? std::string("BPE")
                  : kind_of(model);
  if (kind != "BPE") return unsupported("model", kind);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto& affix = member(model, key);
    if (affix.is_string() && affix != "") return unsupported("option", key);
  }
  if (const auto& dropout = member(model, "dropout"); dropout.is_number() && dropout != 0)
    return unsupported("option", "dropout");
  TROUPE_TRY(tokens, read_vocabulary(member(model, "vocab")));
  parts.tokens = std::move(tokens);
  TROUPE_CHECK(read_merges(member(model, "merges"), parts.merges));
  parts.options.byte_fallback = flag(model, "byte_fallback", false);
  parts.options.ignore_merges = flag(model, "ignore_merges", false);
  parts.options.fuse_unk = flag(model, "fuse_unk", false);
  if (member(model, "unk_token").is_string())
    parts.options.unk_token = member(model, "unk_token").get<std::string>();
  return {};
}

status read_added(const json& list, hf_parts& parts) {
  if (list.is_null()) return {};
  if (!list.is_array() || list.size() > max_added) return tokenizer_no_list("added_tokens");
  for (const auto& item : list) {
    TROUPE_TRY(id, id_of(member(item, "id")));
    TROUPE_TRY(content, text_of(item, "content"));
    bool special = flag(item, "special", false);
    parts.added.push_back({.id = id,
                           .content = std::move(content),
                           .special = special,
                           .normalized = flag(item, "normalized", !special),
                           .single_word = flag(item, "single_word", false),
                           .lstrip = flag(item, "lstrip", false),
                           .rstrip = flag(item, "rstrip", false)});
  }
  return {};
}

// -- post-processor

/// Ids of a special token that a template names.
status add_special(const json& processor, const json& item, std::vector<int32_t>& to) {
  TROUPE_TRY(name, text_of(item, "id"));
  const auto& ids = member(member(member(processor, "special_tokens"), name.c_str()), "ids");
  if (!ids.is_array()) return tokenizer_no_list("special_tokens.ids");
  for (const auto& id : ids) {
    TROUPE_TRY(number, id_of(id));
    if (to.size() >= most_frame_ids) return frame_too_long(most_frame_ids);
    to.push_back(number);
  }
  return {};
}

/// What a template puts around a single text.
status read_template(const json& processor, text_frame& frame) {
  const auto& single = member(processor, "single");
  if (!single.is_array() || single.size() > max_added) return tokenizer_no_list("single");
  bool after = false;
  for (const auto& item : single) {
    if (const auto& special = member(item, "SpecialToken"); special.is_object())
      TROUPE_CHECK(add_special(processor, special, after ? frame.last : frame.first));
    else
      after = after || member(item, "Sequence").is_object();
  }
  return {};
}

/// "cls" and "sep" of Bert's and Roberta's: [token, id].
status read_pair(const json& processor, const char* key, std::vector<int32_t>& to) {
  const auto& pair = member(processor, key);
  if (!pair.is_array() || pair.size() != 2) return tokenizer_no_list(key);
  TROUPE_TRY(id, id_of(pair[1]));
  if (to.size() >= most_frame_ids) return frame_too_long(most_frame_ids);
  to.push_back(id);
  return {};
}

/// ByteLevel's only reports offsets.
status read_post_processor(const json& processor, hf_parts& parts) {
  const auto kind = kind_of(processor);
  if (kind == "ByteLevel") return {};
  if (kind == "TemplateProcessing") return read_template(processor, parts.frame);
  if (kind != "RobertaProcessing" && kind != "BertProcessing")
    return unsupported("post-processor", kind);
  TROUPE_CHECK(read_pair(processor, "cls", parts.frame.first));
  return read_pair(processor, "sep", parts.frame.last);
}

}  // namespace

result<hf_parts> parse_tokenizer_json(std::string_view text) {
  TROUPE_TRY(root, parse_json(text));
  if (!root.is_object()) return tokenizer_no_object();
  hf_parts parts;
  parts.name = "tokenizer.json";
  TROUPE_CHECK(each_stage(member(root, "normalizer"), "normalizers", 0,
                          [&](const json& stage) { return read_normalizer(stage, parts); }));
  TROUPE_CHECK(each_stage(member(root, "pre_tokenizer"), "pretokenizers", 0,
                          [&](const json& stage) { return read_pre_tokenizer(stage, parts); }));
  TROUPE_CHECK(each_stage(member(root, "decoder"), "decoders", 0,
                          [&](const json& stage) { return read_decoder(stage, parts); }));
  if (parts.byte_level_decoder && !parts.decoders.empty())
    return unsupported("decoder", "ByteLevel with others");
  bool byte_level = parts.options.byte_level;
  TROUPE_CHECK(read_model(member(root, "model"), parts));
  parts.options.byte_level = byte_level;
  TROUPE_CHECK(read_added(member(root, "added_tokens"), parts));
  TROUPE_CHECK(each_stage(member(root, "post_processor"), "processors", 0,
                          [&](const json& stage) { return read_post_processor(stage, parts); }));
  if (!parts.frame.first.empty()) parts.frame.bos = parts.frame.first.front();
  return parts;
}

result<hf_parts> parse_gpt2_files(std::string_view vocab, std::string_view merges) {
  TROUPE_TRY(root, parse_json(vocab));
  TROUPE_TRY(tokens, read_vocabulary(root));
  hf_parts parts;
  parts.name = "vocab.json + merges.txt";
  parts.tokens = std::move(tokens);
  parts.options.byte_level = true;
  parts.byte_level_decoder = true;
  TROUPE_TRY(by, splitter::make(gpt2_pattern, split_behavior::isolated, false));
  parts.pre_tokenizers.emplace_back(std::move(by));
  for (size_t at = 0, number = 1; at < merges.size(); ++number) {
    auto line = merges.substr(at, merges.find('\n', at) - at);
    at += line.size() + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    auto pair = merge_of(line);
    if (!pair) return merge_malformed("merges.txt", number);
    parts.merges.push_back(std::move(*pair));
  }
  if (auto end = parts.tokens.find("<|endoftext|>"); end != parts.tokens.end())
    parts.added.push_back({.id = end->second, .content = end->first, .special = true});
  return parts;
}

}  // namespace troupe::io
