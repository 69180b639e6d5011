// Both directions of the file's form go over one list of handles.
#include "actors/job/spawn_record.hpp"

#include "actors/base/actor_log.hpp"
#include "io/config/load.hpp"
#include "messages/header.hpp"

namespace troupe::train {

namespace {

template <class Record, class F>
void for_each_handle(Record& r, F&& f) {
  f("committer", r.committer);
  f("replicator", r.replicator);
  f("coordinator", r.coordinator);
  f("gateway", r.gateway);
  f("observer", r.observer);
  f("reporter", r.reporter);
  f("launcher", r.launcher);
  f("monitor", r.monitor);
  f("predictor", r.predictor);
  f("pacer", r.pacer);
  f("journal", r.journal);
  f("run", r.run);
  f("worker", r.worker);
  f("swapper", r.swapper);
}

checkpoint::resume_point resume_of(const fbs::SpawnRecordT& data) {
  checkpoint::resume_point out{data.resume, data.resume_step};
  for (const auto& mark : data.line) out.line.push_back({mark->launch, mark->step});
  if (auto state = checkpoint::parse_state(data.resume_state)) out.state = std::move(*state);
  return out;
}

fbs::PastPaceT pace_message(const io::perf::past_pace& pace) {
  fbs::PastPaceT out;
  out.node = pace.node;
  out.machine = pace.machine.kind;
  out.gpu_ids = pace.machine.gpu_ids;
  out.threads = pace.threads;
  out.on_gpus = pace.on_gpus;
  out.flops_s = pace.flops_s;
  out.half = pace.half;
  out.steps = pace.steps;
  out.runs = pace.runs;
  return out;
}

io::perf::past_pace pace_in(const fbs::PastPaceT& m) {
  return {m.node, {m.machine, m.gpu_ids}, m.threads, m.on_gpus, m.flops_s, m.half, m.steps, m.runs};
}

}  // namespace

fbs::SpawnRecordT data_of(const spawn_record& record) {
  fbs::SpawnRecordT out;
  out.epoch = record.epoch;
  out.rank = record.rank;
  out.node = record.node;
  out.launch = record.launch;
  out.first_launch = record.first_launch;
  out.incarnation = record.incarnation;
  out.machine = record.machine;
  if (!record.plan.ranks.empty()) out.config_toml = config::to_toml(record.plan.job);
  if (const auto& gpu = record.plan.gpu_at; gpu.bytes > 0) {
    out.gpu_bytes = gpu.bytes;
    out.gpu_ranks = static_cast<uint32_t>(gpu.ranks);
  }
  if (const auto& from = record.resume) {
    out.resume = from->path.string();
    out.resume_step = from->step;
    out.resume_state = checkpoint::format_state(from->state);
    for (const auto& mark : from->line) {
      auto& to = *out.line.emplace_back(std::make_unique<fbs::LaunchMarkT>());
      to.launch = mark.launch;
      to.step = mark.step;
    }
  }
  if (record.memory) out.memory = std::make_unique<fbs::JobMemoryT>(to_message(*record.memory));
  if (record.cluster) out.cluster = std::make_unique<fbs::ClusterMemoryT>(*record.cluster);
  for (const auto& pace : record.paces)
    out.paces.push_back(std::make_unique<fbs::PastPaceT>(pace_message(pace)));
  for_each_handle(record, [&](std::string role, const auto& who) {
    if (who) add_peer(out, std::move(role), who);
  });
  return out;
}

result<spawn_record> record_of(const fbs::SpawnRecordT& data, const name_resolver& actor_of) {
  spawn_record out;
  out.epoch = data.epoch;
  out.rank = data.rank;
  out.node = data.node;
  out.launch = data.launch;
  out.first_launch = data.first_launch;
  out.incarnation = data.incarnation;
  out.machine = data.machine;
  if (!data.config_toml.empty()) {
    TROUPE_TRY(job, config::parse(data.config_toml, "the recorded configuration"));
    TROUPE_TRY(plan, make_plan(job));
    out.plan = std::move(plan);
    if (data.gpu_bytes > 0) out.plan.gpu_at = {data.gpu_bytes, data.gpu_ranks};
  }
  if (!data.resume.empty()) out.resume = resume_of(data);
  if (data.memory) out.memory = memory_in(*data.memory);
  if (data.cluster) out.cluster = *data.cluster;
  for (const auto& pace : data.paces) out.paces.push_back(pace_in(*pace));
  for_each_handle(out, [&](std::string_view role, auto& who) {
    for (const auto& p : data.peers)
      if (present_role(p->role) == role && !p->actor.empty())
        who = caf::actor_cast<std::decay_t<decltype(who)>>(actor_of(p->actor));
  });
  return out;
}

std::string_view present_role(std::string_view recorded) {
  if (recorded == "archive") return "committer";
  if (recorded == "carrier") return "replicator";
  if (recorded == "desk") return "gateway";
  return recorded;
}

void note_spawn_record(const spawn_record& record) {
  if (detail::current_log != nullptr) [[unlikely]]
    detail::current_log->begun(data_of(record));
}

fbs::SpawnRecordT data_of(const spawn_record& record, std::vector<std::string> times) {
  auto out = data_of(record);
  size_t bytes = 0;
  for (const auto& line : times) bytes += line.size() + sizeof(uint64_t);
  out.began_with_times = times.size();
  if (bytes <= max_message_bytes / 2) out.times = std::move(times);
  return out;
}

void note_spawn_record(const spawn_record& record, std::vector<std::string> times) {
  if (detail::current_log != nullptr) detail::current_log->begun(data_of(record, std::move(times)));
}

}  // namespace troupe::train
