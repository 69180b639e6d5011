// A row for each kind.
#include "actors/replay/factories.hpp"

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include "actors/cluster/coordinator.hpp"
#include "actors/power/pacer.hpp"
#include "actors/predict/predictor.hpp"
#include "actors/replay/message_parts.hpp"
#include "actors/swap/swapper.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/loader.hpp"
#include "actors/train/run.hpp"
#include "actors/train/stage.hpp"
#include "actors/train/swap_messages.hpp"
#include "io/config/load.hpp"
#include "messages/errors.hpp"

namespace troupe::replay {

namespace {

using factory = caf::strong_actor_ptr (*)(sim::world&, train::spawn_record&&, const logged_actor&);

/// Folders that are opened as the recording says they were: nothing is made here.
class recorded_drive final : public train::engine_maker {
 public:
  explicit recorded_drive(const logged_actor& log) {
    for (const auto& turn : log.turns) {
      if (!turn.given || !troupe::cast<fbs::OpenSwap>(message_in(turn.given->parts))) continue;
      for (const auto& e : turn.said)
        if (e->kind == fbs::ActorLogKind::answered) note(*e);
    }
  }

  result<std::unique_ptr<train::engine>> make_engine(const train::engine_options&) override {
    return error{errc::unavailable, "a replay has no engines"};
  }
  result<std::unique_ptr<train::swap_home>> open_swap(const train::swap_request&) override {
    if (answers_.empty()) return error{errc::not_found, "the recording opens no more folders"};
    auto next = std::move(answers_.front());
    answers_.pop_front();
    if (!next) return next.error();
    return std::unique_ptr<train::swap_home>(std::make_unique<home>(std::move(*next)));
  }

 private:
  class home final : public train::swap_home {
   public:
    explicit home(train::opened_swap opened) : opened_(std::move(opened)) {}
    train::opened_swap opened() const override { return opened_; }

   private:
    train::opened_swap opened_;
  };

  /// Of a swapper that has its folders already no more are opened (SWA-1).
  void note(const fbs::ActorLogEventT& answer) {
    if (!answers_.empty() && answers_.back()) return;
    if (const auto opened = troupe::cast<fbs::SwapOpened>(message_in(answer.parts)))
      answers_.emplace_back(train::opened_swap_of(*opened));
    else if (auto said = message_of(answer.parts, [](const auto&) { return nullptr; });
             said && said->match_elements<caf::error>())
      answers_.emplace_back(from_caf(said->get_as<caf::error>(0)));
  }

  std::deque<result<train::opened_swap>> answers_;
};

template <class Behaviour, class... Surroundings>
caf::strong_actor_ptr spawn(sim::world& w, Behaviour behaviour, train::spawn_record&& record,
                            Surroundings... around) {
  return caf::actor_cast<caf::strong_actor_ptr>(
      w.spawn(0, behaviour, std::move(record), std::move(around)...));
}

io::perf::part_times recorded_times(const fbs::SpawnRecordT& record) {
  io::perf::part_times out;
  for (const auto& line : record.times)
    if (auto time = io::perf::parse_part_time(line)) out.times.push_back(std::move(*time));
  return out;
}

power::parent_options parent_of(const train::spawn_record& r, const std::string& named,
                                const finder_actor& finder) {
  power::parent_options out;
  out.named = named;
  out.child = r.plan.job.job.name;
  out.incarnation = r.incarnation;
  out.reporter = r.reporter;
  out.finder = [finder](caf::actor_system&) { return finder; };
  return out;
}

/// What it asks of its finders is answered by the recording; nobody looks for a budget here.
power::pacer_options pacer_of(const train::spawn_record& r) {
  auto out = power::pacer_options_of(r.plan.job.power, r.epoch);
  out.machine = r.machine;
  if (!r.machine.empty()) out.processor_time = [] { return gpu::processor_seconds(); };
  if (r.incarnation == 0) return out;
  const auto& racks = r.plan.job.power.racks;
  for (size_t i = 0; i < racks.size(); ++i)
    out.racks.push_back({parent_of(r, racks[i].parent, r.finders[i]), racks[i].nodes});
  if (racks.empty()) out.parent = parent_of(r, r.plan.job.power.parent, r.finders.front());
  return out;
}

const std::map<std::string_view, factory> factories{
    {"coordinator",
     [](auto& w, auto&& r, auto&) {
       return spawn(w, cluster::coordinator, std::move(r), &io::local_storage());
     }},
    {"loader", [](auto& w, auto&& r,
                  auto&) { return spawn(w, train::loader, std::move(r), std::stop_token()); }},
    {"pacer",
     [](auto& w, auto&& r, auto&) {
       return caf::actor_cast<caf::strong_actor_ptr>(w.spawn(0, power::pacer, pacer_of(r)));
     }},
    {"predictor",
     [](auto& w, auto&& r, auto& log) {
       predict::predictor_options options{r.plan.job, r.epoch};
       options.monitor = r.monitor;
       options.model = r.plan.model;
       options.kept = predict::times_in_memory(recorded_times(*log.record));
       return caf::actor_cast<caf::strong_actor_ptr>(
           w.spawn(0, predict::predictor, std::move(options)));
     }},
    {"run", [](auto& w, auto&& r, auto&) { return spawn(w, train::run, std::move(r)); }},
    {"stage", [](auto& w, auto&& r, auto&) { return spawn(w, train::stage, std::move(r)); }},
    {"swapper",
     [](auto& w, auto&& r, auto& log) {
       return spawn(w, swap::swapper, std::move(r),
                    std::shared_ptr<train::engine_maker>(std::make_shared<recorded_drive>(log)));
     }},
};

/// A loader reads what its OpenLoader names.
status has_data(const logged_actor& log) {
  for (const auto& s : log.turns) {
    if (!s.given) continue;
    const auto open = troupe::cast<fbs::OpenLoader>(message_in(s.given->parts));
    if (!open || open->config_toml() == nullptr) continue;
    auto job = config::parse(open->config_toml()->str(), "the recorded configuration");
    if (!job) return job.error();
    auto paths = job->data.validation_path;
    for (const auto& source : job->data.sources())
      paths.insert(paths.end(), source.path.begin(), source.path.end());
    for (const auto& path : paths)
      if (path.find('*') == std::string::npos && !std::filesystem::exists(path))
        return error{errc::not_found, fmt::format("{} reads {}, which is not here", log.path, path),
                     "replay it where its data is, in the same folder"};
  }
  return {};
}

/// A plan of slack is in no message; where a budget above its job was found, earlier recordings do
/// not say.
status says_pacer(const logged_actor& log) {
  TROUPE_TRY(job, config::parse(log.record->config_toml, "the recorded configuration"));
  if (job.power.takes_slack())
    return error{
        errc::unavailable,
        fmt::format("{} cannot be replayed: no recording holds the plan of its slack", log.path),
        "a pacer whose job takes no slack can be replayed"};
  if (!job.power.has_parent() || log.record->incarnation != 0) return {};
  return error{errc::unavailable,
               fmt::format("{} cannot be replayed: an earlier version of the program has recorded "
                           "it, which did not tell how it found the power budget above",
                           log.path),
               "record it again"};
}

/// PRD-10.
status has_times(const logged_actor& log) {
  const auto& record = *log.record;
  if (record.config_toml.empty())
    return error{
        errc::unavailable,
        fmt::format("{} cannot be replayed: an earlier version of the program has recorded "
                    "it, which told of nothing that it is made of",
                    log.path)};
  if (record.times.size() == record.began_with_times) return {};
  return error{errc::unavailable,
               fmt::format("{} cannot be replayed: it began with {} times, of more than a "
                           "recording has room for",
                           log.path, record.began_with_times),
               "one whose predict.store is a new file can be replayed"};
}

}  // namespace

status can_be_replayed(const logged_actor& log) {
  if (log.kind == "predictor") return has_times(log);
  if (log.kind == "loader") return has_data(log);
  if (log.kind == "pacer") return says_pacer(log);
  if (factories.contains(log.kind)) return {};
  const std::string able =
      "coordinator, run, stage, loader, swapper, pacer and predictor can be replayed";
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

result<caf::strong_actor_ptr> make_actor(const logged_actor& log, train::spawn_record record,
                                         sim::world& world) {
  if (log.kind == "stage" && !record.worker)
    return error{errc::bad_data, "a stage without a worker"};
  return factories.find(log.kind)->second(world, std::move(record), log);
}

}  // namespace troupe::replay
