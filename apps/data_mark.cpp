// A small JSON object.
#include "apps/data_mark.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/data/edges_hash.hpp"
#include "io/file.hpp"

namespace troupe::apps {

std::string data_mark_of(const config::job& job, std::span<const std::filesystem::path> files) {
  if (files.empty()) return "";
  const auto content = io::edges_hash(files);
  if (!content) return "";
  nlohmann::ordered_json named = nlohmann::ordered_json::array();
  for (const auto& source : job.data.sources()) named.push_back(source.path);
  const nlohmann::ordered_json mark{{"named", named},
                                    {"content", fmt::format("{:016x}", *content)}};
  return mark.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

bool data_has_changed(const std::filesystem::path& output, const std::string& mark) {
  constexpr size_t longest = size_t{16} << 20;
  const auto text = io::read_file(output / data_mark_file, longest);
  if (!text) return false;  // of a start before there were marks, or with another output
  const auto before = nlohmann::json::parse(*text, nullptr, false);
  const auto now = nlohmann::json::parse(mark, nullptr, false);
  if (!before.is_object() || !now.is_object()) return false;
  const auto has = [&](const char* key, bool same) {
    return before.contains(key) && (before[key] == now[key]) == same;
  };
  return has("named", true) && has("content", false);
}

}  // namespace troupe::apps
