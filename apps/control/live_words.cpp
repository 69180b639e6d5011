// Names of running clusters for the completion of shells (CPT-1).
#include <algorithm>

#include "apps/completion.hpp"
#include "apps/control/commands.hpp"
#include "apps/control/meeting_point.hpp"
#include "apps/control/session.hpp"

namespace troupe::apps {

namespace {

constexpr int64_t patience_of_completion_ms = 300;

connect_options connect_by(const typed_options& typed) {
  connect_options o;
  for (const auto& [flag, value] : typed) {
    if (flag == "--connect") o.address = value;
    if (flag == "--job") o.job = value;
    if (flag == "--ca") o.network.ca = value;
    if (flag == "--certificate") o.network.certificate = value;
    if (flag == "--key") o.network.key = value;
  }
  o.timeout_ms = patience_of_completion_ms;
  return o;
}

}  // namespace

std::vector<std::string> live_words(offered what, const typed_options& typed) {
  std::vector<std::string> out;
  if (what == offered::message) return completions({}, "send * ");
  if (what == offered::job || what == offered::address) {
    for (const auto& p : meeting_points()) out.push_back(what == offered::job ? p.job : p.address);
  } else if (auto s = session::open(connect_by(typed))) {
    if (const auto view = (*s)->view("", "", false))
      out = completions(*view, what == offered::node ? "nodes " : "status ");
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace troupe::apps
