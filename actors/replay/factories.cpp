// A row for each kind.
#include "actors/replay/factories.hpp"

#include <filesystem>
#include <map>
#include <stop_token>

#include <fmt/format.h>

#include "actors/cluster/coordinator.hpp"
#include "actors/replay/message_parts.hpp"
#include "actors/train/loader.hpp"
#include "actors/train/run.hpp"
#include "actors/train/stage.hpp"
#include "io/config/load.hpp"

namespace troupe::replay {

namespace {

using factory = caf::strong_actor_ptr (*)(sim::world&, train::spawn_record&&);

template <class Behaviour, class... Surroundings>
caf::strong_actor_ptr spawn(sim::world& w, Behaviour behaviour, train::spawn_record&& record,
                            Surroundings... around) {
  return caf::actor_cast<caf::strong_actor_ptr>(
      w.spawn(0, behaviour, std::move(record), std::move(around)...));
}

const std::map<std::string_view, factory> factories{
    {"coordinator",
     [](auto& w, auto&& r) {
       return spawn(w, cluster::coordinator, std::move(r), &io::local_storage());
     }},
    {"loader",
     [](auto& w, auto&& r) { return spawn(w, train::loader, std::move(r), std::stop_token()); }},
    {"run", [](auto& w, auto&& r) { return spawn(w, train::run, std::move(r)); }},
    {"stage", [](auto& w, auto&& r) { return spawn(w, train::stage, std::move(r)); }},
};

/// A loader reads what its OpenLoader names.
status has_data(const logged_actor& log) {
  for (const auto& s : log.turns) {
    if (!s.given) continue;
    const auto open = troupe::cast<fbs::OpenLoader>(message_in(s.given->parts));
    if (!open || open->config_toml() == nullptr) continue;
    auto job = config::parse(open->config_toml()->str(), "the recorded configuration");
    if (!job) return job.error();
    auto paths = job->data.path;
    paths.insert(paths.end(), job->data.validation_path.begin(), job->data.validation_path.end());
    for (const auto& path : paths)
      if (path.find('*') == std::string::npos && !std::filesystem::exists(path))
        return error{errc::not_found, fmt::format("{} reads {}, which is not here", log.path, path),
                     "replay it where its data is, in the same folder"};
  }
  return {};
}

}  // namespace

status can_be_replayed(const logged_actor& log) {
  if (log.kind == "loader") return has_data(log);
  if (factories.contains(log.kind)) return {};
  const std::string able = "coordinator, run, stage and loader can be replayed";
  if (log.kind == "worker") return answers_from_device(log.path, able);
  if (log.kind == "node")
    return error{errc::unavailable,
                 fmt::format("{} cannot be replayed: unsupported kind of actor, it uses the "
                             "operating system's network",
                             log.path),
                 able};
  return error{errc::unavailable,
               fmt::format("{} cannot be replayed: no recording holds all that it hears and reads",
                           log.path),
               able};
}

result<caf::strong_actor_ptr> make_actor(const std::string& kind, train::spawn_record record,
                                         sim::world& world) {
  if (kind == "stage" && !record.worker) return error{errc::bad_data, "a stage without a worker"};
  return factories.find(kind)->second(world, std::move(record));
}

}  // namespace troupe::replay
