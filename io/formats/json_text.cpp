// See json_text.hpp.
#include "io/formats/json_text.hpp"

#include <unordered_set>
#include <vector>

#include <fmt/format.h>

namespace troupe::io {

using json = nlohmann::json;

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
  std::string fault;
  std::vector<std::unordered_set<std::string>> keys;  // of the objects now open
  auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (!fault.empty()) return false;
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= max_depth) fault = fmt::format("nested deeper than {} levels", max_depth);
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end ||
               event == json::parse_event_t::array_end) {
      if (!keys.empty()) keys.pop_back();
    } else if (event == json::parse_event_t::key && !keys.empty()) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(name).second)
        fault = fmt::format("the name \"{}\" stands twice in one object", shown(name));
    }
    return fault.empty();
  };
  try {
    auto value = json::parse(text.begin(), text.end(), watch);
    if (!fault.empty()) return error{errc::bad_data, "JSON: " + fault};
    return value;
  } catch (const json::exception& e) {
    return error{errc::bad_data, fault.empty() ? fmt::format("not JSON: {}", e.what()) : fault};
  }
}

}  // namespace troupe::io
