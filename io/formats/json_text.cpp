// See json_text.hpp.
#include "io/formats/json_text.hpp"

#include <unordered_set>
#include <vector>

namespace troupe::io {

using json = nlohmann::json;

namespace {

/// Looks at a document before anything is built of it. The library's callbacks while it builds
/// would do, but with them it walks through a list once more at the end of each object in it.
class json_judge final : public nlohmann::json_sax<json> {
 public:
  explicit json_judge(int max_depth) : max_depth_(static_cast<size_t>(max_depth)) {}

  status fault;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) fault = json_name_twice(shown(name));
    return fault.has_value();
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    constexpr size_t said_bytes = 240;  // it quotes what it read last, however long
    std::string_view what = e.what();
    // "[json.exception.parse_error.101] " is for who wrote the parser.
    if (const auto end = what.find("] "); what.starts_with("[json.") && end != what.npos)
      what.remove_prefix(end + 2);
    fault = not_json(what.size() <= said_bytes ? std::string(what)
                                              : std::string(what.substr(0, said_bytes)) + "...");
    return false;
  }

 private:
  bool begin() {
    if (keys_.size() >= max_depth_) fault = json_too_deep(max_depth_);
    keys_.emplace_back();
    return fault.has_value();
  }
  bool end() {
    keys_.pop_back();
    return true;
  }

  size_t max_depth_;
  std::vector<std::unordered_set<std::string>> keys_;  ///< of what is open now
};

}  // namespace

std::string shown(std::string_view text) {
  constexpr size_t longest = 80;
  std::string out(text.substr(0, longest));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  if (text.size() > longest) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
    out += "...";
  }
  return out;
}

result<json> parse_json(std::string_view text, int max_depth) {
  json_judge look(max_depth);
  if (!json::sax_parse(text.begin(), text.end(), &look)) return look.fault.error();
  return json::parse(text.begin(), text.end());
}

}  // namespace troupe::io
