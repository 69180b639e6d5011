// The coordinator's answer in words.
#include "apps/control/spares.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "messages/any_msg.hpp"

namespace troupe::apps {

result<fbs::SparesT> spares_of(session& s) {
  TROUPE_TRY(answers, s.call("head", "coordinator", make_msg<fbs::SparesRequest>(), 0));
  if (answers.answers.empty()) return error{errc::unavailable, "the cluster has no coordinator"};
  const auto& first = *answers.answers.front();
  if (first.failure) return error{errc::unavailable, first.failure->message, first.failure->hint};
  TROUPE_TRY(m, decode(first.message, message_traits<fbs::Spares>::id));
  return cast<fbs::Spares>(m).unpack();
}

size_t ready_in(const fbs::SparesT& all) {
  return static_cast<size_t>(std::count_if(all.spares.begin(), all.spares.end(),
                                           [](const auto& n) { return n->state == "ready"; }));
}

std::string spares_text(const fbs::SparesT& all) {
  auto out = fmt::format("spares {} of {}\n", ready_in(all), all.configured);
  for (const auto& n : all.spares)
    out += fmt::format("  {:<12}  {:<8}{}{}\n", n->node, n->state,
                       n->host.empty() ? "" : " on " + n->host,
                       n->why.empty() ? "" : fmt::format(" it {}: `admit {}`", n->why, n->node));
  return out;
}

nlohmann::ordered_json spares_json(const fbs::SparesT& all) {
  nlohmann::ordered_json j{{"ready", ready_in(all)}, {"configured", all.configured}};
  j["nodes"] = nlohmann::ordered_json::array();
  for (const auto& n : all.spares)
    j["nodes"].push_back(
        {{"node", n->node}, {"state", n->state}, {"why", n->why}, {"host", n->host}});
  return j;
}

}  // namespace troupe::apps
