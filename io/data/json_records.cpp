// Brackets are counted outside of strings; what is between them nlohmann's parser judges.
#include "io/data/json_records.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/formats/json_text.hpp"

namespace troupe::io {

namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/// The names of a record's fields, the first few.
std::string fields_of(const nlohmann::json& record) {
  constexpr size_t shown_fields = 8;
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) {
    if (names.size() == shown_fields) {
      names.emplace_back("...");
      break;
    }
    names.push_back(shown(name));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

/// A byte outside of records: JRC-2.
status json_records::between(char c) {
  if (is_space(c)) return {};
  const auto wrong = [&](std::string_view what) { return no_record(name_, line_, what); };
  if (c == '[' && !begun_) {
    begun_ = in_array_ = true;
    return {};
  }
  begun_ = true;
  if (array_over_) return wrong("bytes behind the array's end");
  if (in_array_ && c == ']' && !wants_record_) {
    array_over_ = true;
    return {};
  }
  if (in_array_ && c == ',' && wants_comma_) {
    wants_comma_ = false;
    wants_record_ = true;
    return {};
  }
  if (c != '{') return wrong(fmt::format("'{}'", shown({&c, 1})));
  if (in_array_ && wants_comma_) return wrong("no comma between two elements");
  wants_record_ = false;
  begun_line_ = line_;
  depth_ = 1;
  return {};
}

/// A byte of a record; whether it is the last.
bool json_records::inside(char c) {
  if (in_string_) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      in_string_ = false;
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  return depth_ == 0;
}

status json_records::feed(std::string_view bytes, const take& to) {
  if (std::exchange(at_begin_, false) && bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  size_t first = 0;  // of the record under way
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\n') ++line_;
    if (depth_ == 0) {
      TROUPE_CHECK(between(c));
      first = i;
    } else if (inside(c)) {
      const auto part = bytes.substr(first, i + 1 - first);
      if (record_.size() + part.size() > max_bytes_)
        return json_record_too_long(name_, begun_line_, max_bytes_);
      wants_comma_ = in_array_;
      if (record_.empty()) {
        TROUPE_CHECK(to(part, begun_line_));
      } else {
        record_ += part;
        TROUPE_CHECK(to(record_, begun_line_));
        record_.clear();
      }
    }
  }
  if (depth_ > 0) record_ += bytes.substr(first);
  if (record_.size() > max_bytes_)
    return json_record_too_long(name_, begun_line_, max_bytes_);  // JRC-3
  return {};
}

status json_records::finish() const {
  if (depth_ > 0) return no_record(name_, begun_line_, "a record without its end");
  if (in_array_ && !array_over_) return no_record(name_, line_, "an array without its end");
  return {};
}

result<std::string> text_of_record(std::string_view record, const std::string& field,
                                   std::string_view name, uint64_t line) {
  auto parsed = parse_json(record);
  if (!parsed) {
    auto why = parsed.error().within(fmt::format("{}: record of line {}", name, line));
    why.hint = broken_record_hint;
    return why;
  }
  const auto it = parsed->find(field);
  if (it == parsed->end()) return no_text_field(name, line, field, fields_of(*parsed));
  if (!it->is_string()) return text_is_no_string(name, line, field, it->type_name());
  return std::move(it->get_ref<std::string&>());
}

}  // namespace troupe::io
