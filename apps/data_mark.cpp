// A small JSON object.
#include "apps/data_mark.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/data/edges_hash.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

/// A mark as it stands in a file; null where that holds anything else, or nothing.
nlohmann::json read_data_mark(const std::filesystem::path& file) {
  constexpr size_t longest = size_t{16} << 20;
  const auto text = io::read_file(file, longest);
  if (!text) return nullptr;
  auto mark = nlohmann::json::parse(*text, nullptr, false);
  const auto has = [&](const char* key, nlohmann::json::value_t type) {
    return mark.contains(key) && mark[key].type() == type;
  };
  const bool is_one = mark.is_object() && mark.size() == 2 &&
                      has("named", nlohmann::json::value_t::array) &&
                      has("content", nlohmann::json::value_t::string);
  return is_one ? mark : nlohmann::json();
}

}  // namespace

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

bool is_data_mark(const std::filesystem::path& file) {
  return read_data_mark(file).is_object();
}

bool data_has_changed(const std::filesystem::path& output, const std::string& mark) {
  const auto before = read_data_mark(output / data_mark_file);
  const auto now = nlohmann::json::parse(mark, nullptr, false);
  // No mark: of a start before there were any, or with another output.
  if (!before.is_object() || !now.is_object()) return false;
  return before["named"] == now["named"] && before["content"] != now["content"];
}

}  // namespace troupe::apps
