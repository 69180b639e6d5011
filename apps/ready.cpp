// The checks in order: cheap ones first, those that read everything last.
#include "apps/ready.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "actors/checkpoint/committer.hpp"
#include "actors/checkpoint/owner.hpp"
#include "actors/cluster/listening.hpp"
#include "actors/cluster/network.hpp"
#include "actors/train/check_inputs.hpp"
#include "actors/train/readiness_policy.hpp"
#include "actors/train/resume_policy.hpp"
#include "actors/train/swap_forecast.hpp"
#include "apps/control/job_secret.hpp"
#include "apps/data_mark.hpp"
#include "apps/up/folders.hpp"
#include "apps/up/power_parent.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/file.hpp"
#include "io/folder/can_make.hpp"
#include "io/formats/hf_config.hpp"
#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::apps {

namespace {

/// The coordinator's certificates, and those of nodes that this machine starts.
status certificates(const config::cluster_section& c) {
  TROUPE_CHECK(cluster::check(cluster::network_of(c, "coordinator")));
  if (c.launch == config::launch_mode::local)
    for (const auto& node : c.node) TROUPE_CHECK(cluster::check(cluster::network_of(c, node.name)));
  return {};
}

/// The secret by which a job without certificates is known.
status secret(const config::job& job) {
  if (job.cluster.tls.enabled()) return {};
  return job_secret::check(job.job.name, job.job.output);
}

/// What a run writes to. It can do without a second tier.
train::findings folders(const config::job& job) {
  train::findings out;
  const auto& c = job.checkpoint;
  const auto output = io::can_make(job.job.output);
  out.note("job.output", output);
  const auto note = [&](const char* key, const std::string& dir) {
    if (output || !io::is_within(dir, job.job.output)) out.note(key, io::can_make(dir));
  };
  note("checkpoint.dir", c.dir);
  if (!train::ready_tokens(job)) note("data.cache", job.data.cache);
  if (out.problems.empty())  // else both might say the same
    for (auto& [key, why] : check_folders(job)) out.refuse(key, std::move(why));
  if (c.second.dir.empty()) return out;
  if (auto made = io::can_make(c.second.dir); !made)
    out.remarks.push_back("warning: checkpoint.second.dir: " + render(made.error()));
  const bool inside = io::is_within(c.second.dir, c.dir);
  if (inside || io::is_within(c.dir, c.second.dir))
    out.refuse(
        "checkpoint.second.dir",
        {errc::bad_config,
         inside ? fmt::format("the second tier {} lies in the first, {}", c.second.dir, c.dir)
                : fmt::format("the first tier {} lies in the second, {}", c.dir, c.second.dir),
         "keep them apart, best on another disk"});
  else if (io::is_within(c.second.dir, job.job.output))
    out.remarks.push_back(
        fmt::format("warning: the second tier {} lies in job.output: what takes "
                    "that away takes both tiers",
                    c.second.dir));
  return out;
}

/// In both tiers. A second one that cannot be looked into: resume_from says so.
result<std::vector<io::checkpoint::catalog_entry>> list_both(const config::checkpoint_section& c) {
  TROUPE_TRY(all, io::checkpoint::list(c.dir));
  if (!c.second.dir.empty())
    if (auto second = io::checkpoint::list(c.second.dir))
      all.insert(all.end(), second->begin(), second->end());
  return all;
}

/// Fences off what is left of earlier launches: their shards bear another name, their messages
/// another number.
result<uint32_t> epoch_of(const config::checkpoint_section& c) {
  TROUPE_TRY(all, list_both(c));
  const auto epoch = io::checkpoint::next_epoch(all);
  if (epoch <= std::numeric_limits<uint32_t>::max()) return static_cast<uint32_t>(epoch);
  return error{errc::bad_data,
               fmt::format("a checkpoint in {}{}{} claims to be of epoch {}", c.dir,
                           c.second.dir.empty() ? "" : " or ", c.second.dir, epoch - 1),
               "`troupe ckpt ls` shows which: take it away"};
}

/// What the ranks would save must fit slots.
status shares(const train::job_plan& plan) {
  TROUPE_CHECK(checkpoint::shares_of(plan));
  return {};
}

/// Whether the files fit once the checkpoint has become some of them.
bool fits_by_consuming(train::swap_room room, const std::filesystem::path& dir,
                       const std::filesystem::path& checkpoint) {
  if (!room.must_consume()) return false;
  room.free_bytes += train::takeable_bytes(dir, checkpoint);
  return room.fits();
}

/// The same of each drive that lacks room, with a checkpoint to go on from.
bool fit_by_consuming(const std::vector<train::swap_room>& rooms, const readiness& r) {
  if (!r.resume || r.plan->job.swap.dir.size() > 1) return false;
  return std::all_of(rooms.begin(), rooms.end(), [&](const train::swap_room& room) {
    return room.fits() || fits_by_consuming(room, room.dir, r.resume->path);
  });
}

/// Whether no other run's processes have the folders of this job's ranks. Those of a run that was
/// killed end with it, and may take a moment to give their memory back.
status check_swap_holders(const config::job& job) {
  const auto until = std::chrono::steady_clock::now() + defaults::swap_holder_patience;
  while (true) {
    const auto free = train::check_swap_free(job);
    if (free) return free;
    if (std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(defaults::swap_holder_period);
      continue;
    }
    auto why = free.error();
    why.code = errc::bad_config;  // it may be there for days: another folder is asked for
    why.hint = "name another swap.dir or job.name, or wait for the end of that run";
    return why;
  }
}

/// What of the job lives on a drive must find room there, where this machine runs it.
void check_swap_room(const readiness& r, swap_held living, train::findings& found) {
  const auto& job = r.plan->job;
  if (job.cluster.launch != config::launch_mode::local) return;
  const auto needs = train::swap_needs_of(*r.plan);
  if (needs.bytes() == 0) return;
  const auto holders =
      living == swap_held::refuses ? check_swap_holders(job) : train::check_swap_free(job);
  if (!holders && living == swap_held::refuses) return found.refuse("swap.dir", holders.error());
  const auto rooms = train::swap_rooms_of(needs.folders, needs.beside, job.job.name);
  if (!rooms) return found.refuse("swap.dir", rooms.error());
  for (const auto& room : *rooms)
    for (const auto& remark : train::drive_remarks(room.dir))
      found.remarks.push_back("warning: swap.dir: " + remark);
  if (!holders) return;  // who holds the folders gives their room back: how much is not known yet
  const auto lacking =
      std::find_if(rooms->begin(), rooms->end(), [](const auto& room) { return !room.fits(); });
  if (lacking == rooms->end()) return;
  const auto fits = train::check_room(*lacking);
  if (!fit_by_consuming(*rooms, r)) return found.refuse("swap.dir", fits.error());
  if (const auto held = io::checkpoint::holds_of(io::local_files(), r.resume->path); !held.empty())
    return found.refuse(
        "swap.dir", fits.error().within(
                        fmt::format("{} is held by {}", r.resume->path.string(), held.front().by)));
  if (job.swap.consume)
    return found.remarks.push_back(fmt::format(
        "warning: there is no room for the state beside {}: its files become the state, "
        "and with the first step it is given up (swap.consume); until the next checkpoint a "
        "kill or a recovery costs what it held",
        r.resume->path.string()));
  auto why = fits.error();
  why.hint = fmt::format(
      "free space there; or --set swap.consume=true: the files of {} become the "
      "state, and it is given up",
      r.resume->path.string());
  found.refuse("swap.dir", std::move(why));
}

/// The complete checkpoints of both tiers.
result<std::vector<std::filesystem::path>> checkpoints_of(const config::checkpoint_section& c) {
  TROUPE_TRY(all, list_both(c));
  std::vector<std::filesystem::path> out;
  for (const auto& e : all)
    if (e.name.state == io::checkpoint::folder_state::complete) out.push_back(e.path);
  std::sort(out.begin(), out.end());
  return out;
}

/// Checkpoints that are read.
void check_checkpoints(const config::job& job, checkpoint::look resume, readiness& r,
                       train::findings& found) {
  const auto& c = job.checkpoint;
  if (r.plan) found.note("checkpoint.dir", checkpoint::check_owner(r.plan->job));  // settled
  if (checkpoint::is_checkpoint(job.model.path))
    found.note("model.path", checkpoint::verify(job.model.path));
  if (auto epoch = epoch_of(c))
    r.epoch = *epoch;
  else
    found.refuse("checkpoint.dir", epoch.error());
  if (auto there = checkpoints_of(c)) r.checkpoints = std::move(*there);
  auto start = checkpoint::resume_from(c.resume, c.dir, c.second.dir, resume);
  if (!start) return found.refuse("checkpoint.resume", start.error());
  for (const auto& line : start->passed_over) found.remarks.push_back("warning: " + line);
  r.resume = start->from;
}

/// A checkpoint's split in place of the one that the plan was made with.
void keep_stages(train::job_plan& plan, uint64_t step, const train::machine& machine,
                 train::findings& found) {
  if (!found.problems.empty()) return;
  const auto before = train::stage_layers_text(plan);
  if (const auto placed = train::place_stages(plan); !placed)
    return found.refuse("parallel.layers", placed.error());
  const auto kept = train::stage_layers_text(plan);
  if (kept == before) return;
  found.remarks.push_back(fmt::format(
      "stages keep the layers that they had in step {}: parallel.layers = \"{}\", not \"{}\"", step,
      kept, before));
  found.add(train::judge(plan, machine));
  found.note("checkpoint.slot_bytes", shares(plan));
}

/// What the run takes over from the checkpoint beside its tensors, and what has changed since.
void compare_with_checkpoint(readiness& r, const train::machine& machine, train::findings& found) {
  if (!r.plan || !r.resume) return;
  const auto file = r.resume->path / checkpoint::state_file;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;  // what was imported has none
  auto saved = [&]() -> result<checkpoint::train_state> {
    TROUPE_TRY(text, io::read_file(file, checkpoint::max_state_bytes));
    return checkpoint::parse_state(text);
  }();
  if (!saved) return found.refuse("checkpoint.resume", saved.error().within(file.string()));
  const auto listed = r.plan->job.parallel.nodes;
  auto resumed = train::resume_policy(r.plan->job, *saved);
  found.add(std::move(resumed.found));
  r.plan->job = std::move(resumed.job);
  const auto validated = r.resume->state.validation_loss;
  r.resume->state = {saved->step, saved->tokens, saved->loss, "", std::move(resumed.set)};
  r.resume->state.validation_loss = validated;
  keep_stages(*r.plan, saved->step, machine, found);
  if (const auto& kept = r.plan->job.parallel.nodes; kept != listed)
    found.remarks.push_back(
        fmt::format("nodes keep the order that they had in step {}: parallel.nodes = \"{}\"",
                    saved->step, kept));
}

/// Other text under the same names is trained on from where the old one was left.
void compare_data(const config::job& job, const readiness& r, train::findings& found) {
  if (!r.resume || r.data_mark.empty() || !data_has_changed(job.job.output, r.data_mark)) return;
  found.remarks.push_back(
      fmt::format("warning: the files of {} do not hold what they held at the last start, under "
                  "the same names: "
                  "from step {} on the run sees other windows than it would have",
                  job.data.source.empty() ? "data.path" : "data.source", r.resume->step + 1));
}

/// The key that a job cannot be planned for; empty where it is not one alone.
const char* key_of(const error& why) {
  if (why.is(train::document_end_beyond)) return "data.document_end";
  if (why.is(train::stage_layers_unfit)) return "parallel.layers";
  if (why.is(io::unknown_tokenizer) || why.is(io::unsupported_tokenizer)) return "data.tokenizer";
  if (why.is(io::hf_unsupported) || why.is(io::hf_rope_unsupported) || why.is(io::hf_no_object) ||
      why.is(io::hf_key_missing) || why.is(io::hf_type_wrong) || why.is(io::hf_value_wrong))
    return "model.path";
  const bool unknown = why.is(train::document_end_unknown) || why.is(train::end_of_text_beyond);
  return unknown ? "data.reset_attention" : "";
}

}  // namespace

std::vector<std::string> remarks_on(const config::job& job) {
  std::vector<std::string> out;
  const auto& data = job.data;
  if (data.document_end >= 0 && !data.reset_attention)
    out.push_back(
        fmt::format("warning: data.document_end = {} has no effect: attention is not reset between "
                    "documents; set data.reset_attention = true, or leave it out",
                    data.document_end));
  if (job.swap.device_bytes > 0 && job.cluster.device == config::device_kind::host)
    out.push_back("swap.device_bytes has no effect: cluster.device = \"host\"");
  const auto& parallel = job.parallel;
  if (parallel.placement == config::stage_placement::measured && parallel.pipeline == 1)
    out.push_back(
        "parallel.placement = \"measured\" has no effect: there is one stage, which has all "
        "layers");
  return out;
}

readiness readiness_of(const config::job& job, const train::machine& machine,
                       checkpoint::look resume, swap_held held) {
  readiness r;
  train::findings found{remarks_on(job), {}};
  found.note("cluster.tls.certificate", certificates(job.cluster));
  found.note("cluster.listen",
             cluster::can_listen(job.cluster.listen, static_cast<uint16_t>(job.cluster.port)));
  found.note("power.parent_key", check_power_parent(joiner_of(job)));
  auto where = folders(job);
  const bool can_look = where.problems.empty();
  if (can_look) found.note("", secret(job));  // its name is made of the output's
  found.add(std::move(where));
  auto plan = train::make_plan(job);
  if (plan) {
    train::settle_host_bytes(plan->job, machine.memory_bytes);
    train::place_on_gpus(*plan, machine);
    found.add(train::judge(*plan, machine));
    if (found.problems.empty()) found.note("checkpoint.slot_bytes", shares(*plan));
    auto inputs = train::check_inputs(*plan);
    found.add({{}, std::move(inputs.problems)});
    r.of_data = std::move(inputs.notes);
    r.sources = std::move(inputs.sources);
    r.data_mark = data_mark_of(job, inputs.files);
    r.plan = std::move(*plan);
  } else {
    r.sources = train::source_shares_of(job);
    auto absent = train::absent_inputs(job);
    if (absent.empty() || plan.error().code != errc::not_found)
      found.refuse(key_of(plan.error()), plan.error());
    found.add({{}, std::move(absent)});
  }
  if (can_look) check_checkpoints(job, resume, r, found);
  compare_with_checkpoint(r, machine, found);
  compare_data(job, r, found);
  if (r.plan && found.problems.empty()) check_swap_room(r, held, found);
  if (r.plan) r.plan->job = train::recorded_job(*r.plan);
  r.remarks = std::move(found.remarks);
  r.problems = std::move(found.problems);
  return r;
}

status look_again(readiness& r, const config::checkpoint_section& c) {
  TROUPE_TRY(there, checkpoints_of(c));
  if (there != r.checkpoints)
    return error{errc::timeout, "another launcher changed the checkpoints during the checks",
                 "start it again"};
  TROUPE_TRY(epoch, epoch_of(c));
  r.epoch = std::max(r.epoch, epoch);
  return {};
}

std::vector<config::problem> placed(const std::vector<train::finding>& problems,
                                    const config::loaded& job) {
  std::vector<config::problem> out;
  for (const auto& [key, why] : problems) {
    const auto origin = job.origins.find(key);
    out.push_back({origin == job.origins.end() ||
                           origin->second.kind == config::source_kind::standard ||
                           origin->second.kind == config::source_kind::derived
                       ? config::origin{config::source_kind::file, job.files.back()}
                       : origin->second,
                   key, why.message, why.hint, why.code});
  }
  return out;
}

error refusal_of(const std::vector<train::finding>& problems, const config::loaded& job) {
  return config::as_error(placed(problems, job));
}

}  // namespace troupe::apps
