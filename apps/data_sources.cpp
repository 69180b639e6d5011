// Sources to JSON. Keys are for programs: none of them changes its meaning.
#include "apps/data_sources.hpp"

#include <nlohmann/json.hpp>

namespace troupe::apps {

nlohmann::ordered_json sources_json(std::span<const train::source_share> shares) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& s : shares) {
    nlohmann::ordered_json item;
    if (!s.source.name.empty()) item["name"] = s.source.name;
    item["path"] = s.source.path;
    item["weight"] = s.source.weight;
    item["share"] = s.share;
    item["windows"] = s.windows;
    if (s.counted) {
      item["tokens"] = s.counted->tokens;
      item["training_windows"] = s.counted->train_windows;
      item["held_out_windows"] = s.counted->validation_windows;
      item["passes"] = s.counted->passes;
    }
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace troupe::apps
