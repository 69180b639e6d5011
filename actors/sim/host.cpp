// Times in place of work.
#include "actors/sim/host.hpp"

#include <algorithm>
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

/// An engine whose operations take time and nothing else. It does one after another.
class timed_engine final : public train::engine {
 public:
  timed_engine(environment* room, int node, const train::engine_options& o)
      : room_(room),
        epoch_(o.epoch),
        ranks_(room->barrier_of(o.epoch, o.at.grid)),
        node_(node),
        at_(o.at) {
    head_.job = o.job;
    head_.epoch = o.epoch;
    head_.layout = at_.grid;
    head_.slot_bytes = o.checkpoint_slot_bytes;
    room_->draw_of(rank()).stops(now());  // what it did for the engine before this one
  }

  /// Its sockets close, which the other ranks notice; those of a host that has gone do not.
  ~timed_engine() override {
    if (room_->where.fell_silent(node_)) return;
    room_->where.clock().call_at(now() + 1'000'000, [group = ranks_] { group->fail(); });
  }

  void set_probe(train::engine_probe*) noexcept override {}
  void set_cause(uint64_t, uint64_t) noexcept override {}

  void build(completion done) override {
    work(room_->times.build_ns, room_->draw.other_w, std::move(done));
  }
  train::engine_facts facts() const override { return {1000, 16'000, {}}; }
  status attach(const train::batch_source&) override { return {}; }

  result<std::vector<train::group_offer>> open_groups(const std::string&) override {
    std::vector<train::group_offer> out;
    for (const auto& g : at_.groups(false)) {
      out.push_back({g.name(), g.rank, g.size(), {}});
      for (int to = 0; to < g.size(); ++to)
        out.back().addresses.push_back(address_of(g, g.rank, to));
    }
    return out;
  }
  void connect_groups(group_tables tables, completion done) override {
    if (auto connected = can_connect(at_, tables); !connected) return done(connected);
    work(1'000'000, room_->draw.other_w, std::move(done));
  }

  void run(const train::op_order& order, completion done) override {
    const auto releases = train::facts_of(order.kind).releases;
    if (order.kind == train::pipeline_op::begin) forward_ms_ = backward_ms_ = 0;
    if (releases == train::op_partner::next)
      operate(order.micro_batches * room_->times.forward_ns, room_->draw.forward_w, forward_ms_,
              std::move(done));
    if (releases == train::op_partner::previous)
      operate(order.micro_batches * room_->times.backward_ns, room_->draw.backward_w, backward_ms_,
              std::move(done));
  }
  void update(int64_t step, double lr, outcome_completion done) override;
  void finish_evaluation(outcome_completion done) override;

  void load(std::string folder, bool optimizer, completion done) override;
  void save(uint64_t step, const std::filesystem::path& partial, bool last,
            gpu::state_saver::completion done) override;
  std::optional<gpu::saver_facts> saver_facts() const override { return std::nullopt; }

  void abort() noexcept override {}

 private:
  uint32_t rank() const { return static_cast<uint32_t>(at_.rank); }
  const io::checkpoint::rank_plan& share() const {
    return room_->plans.at(at_.grid.data).at(rank());
  }
  int64_t now() const { return room_->where.now_ns(); }
  device_fault state() const {
    const auto it = room_->device_faults.find(rank());
    return it == room_->device_faults.end() ? device_fault{} : it->second;
  }

  /// A failure of the device, told once.
  status failure() {
    if (!state().fails) return {};
    room_->device_faults[rank()].fails = false;
    return error{errc::io, "the device reports an uncorrectable error"};
  }

  template <class F>
  void later(int64_t delay_ns, F then) {
    room_->where.after(delay_ns, node_, alive_, std::move(then));
  }

  /// Of what is called, nothing is heard any more. Kept: a promise that is let go is an answer.
  template <class Completion>
  bool hangs(Completion& done) {
    if (!state().hangs) return false;
    never_.push_back(std::make_shared<Completion>(std::move(done)));
    return true;
  }

  /// How long the device takes from now, drawing so many watts: it does one thing after another.
  int64_t busy_for(int64_t ns, double watts) {
    const auto takes = static_cast<int64_t>(static_cast<double>(room_->about(ns)) * state().slow);
    const auto begin_ns = std::max(busy_until_ns_, now());
    busy_until_ns_ = begin_ns + takes;
    room_->draw_of(rank()).works(begin_ns, busy_until_ns_, watts);
    return busy_until_ns_ - now();
  }

  void work(int64_t ns, double watts, completion done) {
    if (hangs(done)) return;
    later(busy_for(ns, watts), [done = std::move(done)] { done({}); });
  }
  void operate(int64_t ns, double watts, double& add_to_ms, completion done) {
    if (auto broken = failure(); !broken) return done(broken);
    add_to_ms += static_cast<double>(ns) / 1e6;
    work(ns, watts, std::move(done));
  }

  train::step_outcome outcome(int64_t step) const {
    train::step_outcome o;
    o.loss_sum = at_.last() ? 1000.0 / static_cast<double>(step + 100) : 0;
    o.grad_norm = 1;
    o.parts = {{train::pipeline_op::forward, forward_ms_, 0, 0},
               {train::pipeline_op::backward, backward_ms_, 0, 0}};
    return o;
  }

  environment* room_;
  uint64_t epoch_;
  std::shared_ptr<rank_barrier> ranks_;
  int node_;
  grid_rank at_;
  io::checkpoint::manifest_head head_;  ///< of what it saves
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  int64_t busy_until_ns_ = 0;
  double forward_ms_ = 0, backward_ms_ = 0;
  std::vector<std::shared_ptr<void>> never_;
};

/// A step ends for all ranks at once.
void timed_engine::update(int64_t step, double lr, outcome_completion done) {
  if (auto broken = failure(); !broken) return done(broken, {});
  if (hangs(done)) return;
  room_->note_rate(epoch_, static_cast<uint64_t>(step), lr);
  auto updated = [this, step, done = std::move(done)](bool ok) {
    if (ok)
      done({}, outcome(step));
    else
      done(error{errc::unavailable, "a rank has left the group"}, {});
  };
  later(busy_for(room_->times.update_ns, room_->draw.update_w),
        [this, step, updated = std::move(updated)] {
          auto go_on = [this, alive = std::weak_ptr<int>(alive_), updated](bool ok) {
            if (alive.expired()) return;
            later(0, [updated, ok] { updated(ok); });
          };
          ranks_->arrive(static_cast<uint64_t>(step), std::move(go_on));
        });
}

/// A validation ends for each rank by itself.
void timed_engine::finish_evaluation(outcome_completion done) {
  if (auto broken = failure(); !broken) return done(broken, {});
  if (hangs(done)) return;
  later(busy_for(0, 0), [this, done = std::move(done)] { done({}, outcome(0)); });
}

void timed_engine::load(std::string folder, bool, completion done) {
  const auto read = [&]() -> status {
    TROUPE_TRY(from, room_->opened(folder));
    return check_share(from, share());
  };
  if (auto sound = read(); !sound) return done(sound);
  work(room_->times.save_ns, room_->draw.other_w, std::move(done));
}

/// As the real one: beside the device's work, in the folder that whoever comes first makes.
void timed_engine::save(uint64_t step, const std::filesystem::path& partial, bool,
                        gpu::state_saver::completion done) {
  if (auto broken = failure(); !broken) return done(broken.error());
  constexpr int calls = 3;  // the bytes, their tail, its sync
  const auto disk = room_->files.beside(node_, room_->about(room_->times.save_ns) / calls);
  if (state().hangs) (void)io::checkpoint::make_partial(*disk, partial, head_.job);
  if (hangs(done)) return;
  auto head = head_;
  head.step = step;
  auto vote = save_share(*disk, room_->ring, partial, head, share());
  later(disk->now().count() - now(),
        [done = std::move(done), vote = std::move(vote)] { done(vote); });
}

class simulated_meters final : public gpu::meter_reader {
 public:
  simulated_meters(environment* room, std::vector<uint32_t> ranks)
      : room_(room), ranks_(std::move(ranks)) {}

  std::vector<gpu::metered> read(int64_t now_ns) override {
    std::vector<gpu::metered> out;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const auto r = room_->draw_of(ranks_[i]).read(now_ns);
      out.push_back({fmt::format("gpu{}", i), gpu::metered_kind::accelerator, r.power_w,
                     room_->draw.limit_w, r.temperature_c, r.busy_percent});
    }
    return out;
  }

 private:
  environment* room_;
  std::vector<uint32_t> ranks_;
};

class simulated_host final : public cluster::host {
 public:
  simulated_host(environment* room, int node, std::vector<uint32_t> ranks, std::string instance)
      : room_(room), node_(node), ranks_(std::move(ranks)), instance_(std::move(instance)) {}

  fbs::HardwareFactsT facts() override {
    fbs::HardwareFactsT f;
    f.hostname = fmt::format("host{}", node_);
    f.boot_id = "0";
    f.cpu_model = "simulated";
    f.cores = 8;
    f.memory_bytes = 1 << 30;
    f.instance_id = instance_;
    return f;
  }
  io::file_system& files() override { return room_->files.of(node_).files(); }
  cluster::process_usage usage() override { return {1 << 20, 1}; }
  std::vector<std::unique_ptr<gpu::meter_reader>> open_meters() override {
    std::vector<std::unique_ptr<gpu::meter_reader>> out;
    out.push_back(std::make_unique<simulated_meters>(room_, ranks_));
    return out;
  }
  result<std::unique_ptr<train::engine>> make_engine(
      const train::engine_options& options) override {
    return std::unique_ptr<train::engine>(std::make_unique<timed_engine>(room_, node_, options));
  }

 private:
  environment* room_;
  int node_;
  std::vector<uint32_t> ranks_;
  std::string instance_;
};

}  // namespace

std::shared_ptr<cluster::host> make_host(environment* room, int node, std::vector<uint32_t> ranks,
                                         std::string instance) {
  return std::make_shared<simulated_host>(room, node, std::move(ranks), std::move(instance));
}

}  // namespace troupe::sim
