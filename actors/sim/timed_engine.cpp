// Times in place of work.
#include "actors/sim/timed_engine.hpp"

#include <cstring>

#include <fmt/format.h>

#include "actors/sim/shards.hpp"

namespace troupe::sim {

namespace {

/// As long as one of Gloo's (gpu/collective/gloo.cpp) and unlike any other; nothing for oneself.
std::string address_of(const rank_group& g, int from, int to) {
  if (from == to) return {};
  std::string out(14, '\0');
  const int words[] = {g.name().front() << 24 | g.number, from, to};
  std::memcpy(out.data(), words, sizeof(words));
  return out;
}

/// Finds the others only where the tables hold what each of them made for this rank.
status can_connect(const grid_rank& at, const train::engine::group_tables& tables) {
  for (const auto& g : at.groups(false)) {
    const auto name = g.name();
    const auto found = std::find_if(tables.begin(), tables.end(),
                                    [&](const auto& table) { return table.first == name; });
    if (found == tables.end())
      return error{errc::bad_data, fmt::format("no addresses for {}", name)};
    const auto& offered = found->second;
    if (offered.size() != g.members.size())
      return error{errc::bad_data, fmt::format("{} addresses for {}", offered.size(), name)};
    for (int from = 0; from < g.size(); ++from)
      if (offered[static_cast<size_t>(from)] != address_of(g, from, g.rank))
        return error{errc::bad_data, fmt::format("{}: not what rank {} offers", name, from)};
  }
  return {};
}

}  // namespace

result<std::vector<train::group_offer>> timed_engine::open_groups(const std::string&) {
  std::vector<train::group_offer> out;
  for (const auto& g : at_.groups(false)) {
    out.push_back({g.name(), g.rank, g.size(), {}});
    for (int to = 0; to < g.size(); ++to) out.back().addresses.push_back(address_of(g, g.rank, to));
  }
  return out;
}

void timed_engine::connect_groups(group_tables tables, completion done) {
  if (auto connected = can_connect(at_, tables); !connected) return done(connected);
  work(1'000'000, room_->draw.other_w, std::move(done));
}

void timed_engine::occupy(int64_t ns, double watts, train::pipeline_op kind, uint64_t amount,
                          std::function<void()> then) {
  const bool is_of_step = kind != train::pipeline_op::count;
  later(is_of_step ? busy_for(ns, watts, kind, amount) : busy_for(ns, watts), std::move(then));
}

void timed_engine::run(const train::op_order& order, completion done) {
  const auto releases = train::facts_of(order.kind).releases;
  if (order.kind == train::pipeline_op::begin) begin_pass(order);
  if (releases != train::op_partner::none) step_ = order.step;
  if (releases == train::op_partner::next)
    operate(order, times_.forward_ns, room_->draw.forward_w, std::move(done));
  if (releases == train::op_partner::previous)
    operate(order, times_.backward_ns, room_->draw.backward_w, std::move(done));
}

/// A step ends for all ranks at once.
void timed_engine::update(int64_t step, double lr, outcome_completion done) {
  if (auto broken = failure(); !broken) return done(broken, {});
  if (hangs(done)) return;
  room_->note_rate(epoch_, static_cast<uint64_t>(step), lr);
  auto updated = [this, step, done = std::move(done)](const status& met) {
    done(met, met ? outcome(step) : train::step_outcome{});
  };
  occupy(times_.update_ns, room_->draw.update_w, train::pipeline_op::update, parameters,
         [this, step, updated = std::move(updated)] { meet_others(step, updated); });
}

void timed_engine::meet_others(int64_t step, std::function<void(const status&)> then) {
  const auto came_ns = now();
  auto go_on = [this, came_ns, alive = std::weak_ptr<int>(alive_), then = std::move(then)](
                   bool ok, int64_t stage_came_ns) {
    if (alive.expired()) return;
    if (ok) note_meeting(came_ns, stage_came_ns);
    later(0, [then, ok] { then(ok ? status() : left_group()); });
  };
  ranks_->arrive(static_cast<uint64_t>(step), {at_.place().pipeline, came_ns, std::move(go_on)});
}

status timed_engine::left_group() {
  return error{errc::unavailable, "a rank has left the group"};
}

void timed_engine::note_meeting(int64_t came_ns, int64_t replicas_came_ns) {
  using op = train::pipeline_op;
  clock_.held_up(op::update, in_ms(now() - came_ns));
  if (at_.grid.data > 1)
    note(op::all_gather, came_ns, replicas_came_ns, parameters * sizeof(float));
}

/// A validation ends for each rank by itself.
void timed_engine::finish_evaluation(outcome_completion done) {
  if (auto broken = failure(); !broken) return done(broken, {});
  if (hangs(done)) return;
  occupy(0, 0, train::pipeline_op::count, 0,
         [this, done = std::move(done)] { done({}, outcome(0)); });
}

void timed_engine::load(std::string folder, bool, completion done) {
  const auto read = [&]() -> status {
    TROUPE_TRY(from, room_->opened(folder));
    return check_share(from, share());
  };
  if (auto sound = read(); !sound) return done(sound);
  work(times_.save_ns, room_->draw.other_w, std::move(done));
}

/// As the real one: beside the device's work, in the folder that whoever comes first makes.
void timed_engine::save(uint64_t step, const std::filesystem::path& partial, bool,
                        gpu::state_saver::completion done) {
  if (auto broken = failure(); !broken) return done(broken.error());
  constexpr int calls = 3;  // the bytes, their tail, its sync
  const auto disk = room_->files.beside(node_, room_->about(times_.save_ns) / calls);
  if (state().hangs) (void)io::checkpoint::make_partial(*disk, partial, head_.job);
  if (hangs(done)) return;
  auto head = head_;
  head.step = step;
  auto vote = save_share(*disk, room_->ring, partial, head, share());
  if (room_->times.saves_block) busy_until_ns_ = std::max(busy_until_ns_, disk->now().count());
  later(disk->now().count() - now(),
        [done = std::move(done), vote = std::move(vote)] { done(vote); });
}

}  // namespace troupe::sim
