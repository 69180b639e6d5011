// A way to be born for each kind.
#include "actors/replay/cast.hpp"

#include <filesystem>
#include <stop_token>

#include <fmt/format.h>

#include "actors/cluster/coordinator.hpp"
#include "actors/train/loader.hpp"
#include "actors/train/run.hpp"
#include "actors/train/stage.hpp"
#include "io/config/load.hpp"

namespace troupe::replay {

namespace {

/// The handed actors of a role, in order.
template <class Handle>
std::vector<Handle> peers(const story& life, const surroundings& around, std::string_view role) {
  std::vector<Handle> out;
  for (const auto& p : life.birth->peers) {
    if (p->role != role) continue;
    const auto who = p->actor.empty() ? caf::strong_actor_ptr{} : around.actor_of(p->actor);
    out.push_back(caf::actor_cast<Handle>(who));
  }
  return out;
}

template <class Handle>
Handle peer(const story& life, const surroundings& around, std::string_view role) {
  auto all = peers<Handle>(life, around, role);
  return all.empty() ? Handle{} : all.front();
}

result<train::job_plan> plan_of(const fbs::LifeBirthT& birth) {
  TROUPE_TRY(job, config::parse(birth.config_toml, "the recorded configuration"));
  return train::make_plan(job);
}

std::optional<checkpoint::entry> resume_of(const fbs::LifeBirthT& birth) {
  if (birth.resume.empty()) return std::nullopt;
  checkpoint::entry out{birth.resume, birth.resume_step};
  if (auto state = checkpoint::parse_state(birth.resume_state)) out.state = std::move(*state);
  return out;
}

template <class Handle>
caf::strong_actor_ptr pointer(const Handle& who) {
  return caf::actor_cast<caf::strong_actor_ptr>(who);
}

result<caf::strong_actor_ptr> cast_stage(const story& life, const surroundings& around) {
  const auto& b = *life.birth;
  const auto worker = peer<worker_actor>(life, around, "worker");
  if (!worker) return error{errc::bad_data, "a stage without a worker"};
  return pointer(around.world.spawn(0, train::stage, b.epoch, b.rank, worker));
}

result<caf::strong_actor_ptr> cast_loader(const story& life, const surroundings& around) {
  const auto& b = *life.birth;
  return pointer(around.world.spawn(0, train::loader, b.epoch, b.node, std::stop_token()));
}

result<caf::strong_actor_ptr> cast_run(const story& life, const surroundings& around) {
  const auto& b = *life.birth;
  train::run_options o;
  TROUPE_TRY(plan, plan_of(b));
  o.plan = std::move(plan);
  o.epoch = b.epoch;
  o.resume = resume_of(b);
  o.archive = peer<archive_actor>(life, around, "archive");
  o.carrier = peer<carrier_actor>(life, around, "carrier");
  o.reporter = peer<reporter_actor>(life, around, "reporter");
  o.coordinator = peer<coordinator_actor>(life, around, "coordinator");
  return pointer(around.world.spawn(0, train::run, std::move(o)));
}

result<caf::strong_actor_ptr> cast_coordinator(const story& life, const surroundings& around) {
  const auto& b = *life.birth;
  cluster::coordinator_options o;
  TROUPE_TRY(plan, plan_of(b));
  o.plan = std::move(plan);
  o.epoch = b.epoch;
  o.resume = resume_of(b);
  o.reporter = peer<reporter_actor>(life, around, "reporter");
  o.desk = peer<desk_actor>(life, around, "desk");
  o.observer = peer<observer_actor>(life, around, "observer");
  o.archive = caf::actor_cast<archive_actor>(around.spawned("archive"));
  o.carrier = caf::actor_cast<carrier_actor>(around.spawned("carrier"));
  o.run = caf::actor_cast<run_actor>(around.spawned("run"));
  return pointer(around.world.spawn(0, cluster::coordinator, std::move(o)));
}

/// A loader reads what its OpenLoader names.
status has_data(const story& life) {
  for (const auto& s : life.scenes) {
    if (!s.given) continue;
    const auto open = troupe::cast<fbs::OpenLoader>(message_in(s.given->parts));
    if (!open || open->config_toml() == nullptr) continue;
    auto job = config::parse(open->config_toml()->str(), "the recorded configuration");
    if (!job) return job.error();
    auto paths = job->data.path;
    paths.insert(paths.end(), job->data.validation_path.begin(), job->data.validation_path.end());
    for (const auto& path : paths)
      if (path.find('*') == std::string::npos && !std::filesystem::exists(path))
        return error{errc::not_found,
                     fmt::format("{} reads {}, which is not here", life.path, path),
                     "replay it where its data is, in the same folder"};
  }
  return {};
}

}  // namespace

status can_be_replayed(const story& life) {
  const std::string able = "coordinator, run, stage and loader can be replayed";
  if (life.kind == "coordinator" || life.kind == "run" || life.kind == "stage") return {};
  if (life.kind == "loader") return has_data(life);
  if (life.kind == "worker")
    return error{errc::unavailable,
                 fmt::format("{} cannot be replayed: its answers come from its device and from "
                             "other ranks over the data plane, which no recording holds",
                             life.path),
                 "replay its stage, which tells it what to do; " + able};
  if (life.kind == "node")
    return error{errc::unavailable,
                 fmt::format("{} cannot be replayed: it speaks with the operating system's network",
                             life.path),
                 able};
  return error{
      errc::unavailable,
      fmt::format("{} cannot be replayed: its birth does not say how it was made", life.path),
      able};
}

result<caf::strong_actor_ptr> cast(const story& life, const surroundings& around) {
  if (life.kind == "stage") return cast_stage(life, around);
  if (life.kind == "loader") return cast_loader(life, around);
  if (life.kind == "run") return cast_run(life, around);
  return cast_coordinator(life, around);
}

}  // namespace troupe::replay
