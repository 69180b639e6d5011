// The signs of clusters.
#include "apps/control/meeting_point.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace troupe::apps {

namespace {

nlohmann::ordered_json sign_of(const meeting_point& here) {
  nlohmann::ordered_json sign;
  sign["job"] = here.job;
  sign["pid"] = here.pid;
  sign["address"] = here.address;
  sign["output"] = absolute_path(here.output);
  sign["ca"] = absolute_path(here.network.ca);
  sign["certificate"] = absolute_path(here.network.certificate);
  sign["key"] = absolute_path(here.network.key);
  sign["secret"] = absolute_path(here.secret);
  return sign;
}

}  // namespace

meeting_sign::meeting_sign(const meeting_point& here)
    : file_(here.pid, ".json", sign_of(here), "tools will not find this cluster by themselves") {}

std::vector<meeting_point> meeting_points() {
  std::vector<meeting_point> out;
  for (const auto& sign : living_signs(".json", "job")) {
    meeting_point p;
    p.job = sign.value("job", "");
    p.pid = sign.value("pid", 0);
    p.address = sign.value("address", "");
    p.output = sign.value("output", "");
    p.network.ca = sign.value("ca", "");
    p.network.certificate = sign.value("certificate", "");
    p.network.key = sign.value("key", "");
    p.secret = sign.value("secret", "");
    out.push_back(std::move(p));
  }
  return out;
}

result<meeting_point> the_meeting_point(const std::string& job) {
  auto here = meeting_points();
  std::erase_if(here, [&](const auto& p) { return !job.empty() && p.job != job; });
  if (here.size() == 1) return std::move(here.front());
  if (here.empty())
    return error{errc::not_found,
                 job.empty() ? "no cluster of yours runs on this machine"
                             : fmt::format("no cluster named {} runs on this machine", job),
                 "start one with: troupe up FILE; or say --connect HOST:PORT"};
  std::vector<std::string> names;
  for (const auto& p : here) names.push_back(fmt::format("{} at {}", p.job, p.address));
  return error{errc::usage,
               fmt::format("{} clusters run here: {}", here.size(), fmt::join(names, ", ")),
               "say which with --job NAME or --connect HOST:PORT"};
}

std::optional<meeting_point> meeting_point_at(const std::string& host, uint16_t port) {
  for (auto& p : meeting_points())
    if (is_at(p.address, host, port)) return std::move(p);
  return std::nullopt;
}

}  // namespace troupe::apps
