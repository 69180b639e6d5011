// One question, or two.
#include "actors/train/run_build.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/base/gather.hpp"
#include "actors/train/run_commit.hpp"
#include "actors/train/run_drills.hpp"
#include "actors/train/run_slack.hpp"
#include "actors/train/swap_folder.hpp"
#include "actors/train/swap_ranks.hpp"

namespace troupe::train {

namespace {

/// Of the job, on the device of this one; 0 where that is the host.
uint32_t ranks_on_device_of(const run_crew& crew, size_t rank) {
  const auto& names = crew.devices.names;
  if (names[rank] == "host") return 0;
  uint32_t out = 0;
  for (size_t r = 0; r < names.size(); ++r)
    out += names[r] == names[rank] && crew.hosts[r] == crew.hosts[rank] ? 1 : 0;
  return out;
}

fbs::BuildStageT stage_order(const run_state& st, size_t rank) {
  const auto& o = st.crew;
  const auto& plan = st.job.plan();
  const auto& place = plan.ranks[rank];
  fbs::BuildStageT m;
  m.rank = static_cast<uint32_t>(rank);
  m.data_rank = static_cast<uint32_t>(place.at.place().data);
  m.data_ranks = static_cast<uint32_t>(place.at.grid.data);
  m.pipeline_rank = static_cast<uint32_t>(place.at.place().pipeline);
  m.pipeline_ranks = static_cast<uint32_t>(place.at.grid.pipeline);
  m.first_layer = static_cast<uint32_t>(place.layers.first);
  m.last_layer = static_cast<uint32_t>(place.layers.last);
  m.threads = static_cast<uint32_t>(o.threads[rank]);
  m.device = o.devices.names[rank];
  m.shared_devices = o.devices.shared;
  m.device_ranks = ranks_on_device_of(o, rank);
  m.config_toml = configuration_for(st, rank);
  m.launch = st.record.whole_launch();
  return m;
}

/// Asks every stage; `change(order, rank)` says what else stands in it, before this returns.
template <class Change, class All>
void ask_stages(run_pointer self, const Change& change, All all) {
  gather<fbs::StageReady>(
      self, self->state.crew.stages,
      [](size_t rank) {
        return awaited{fmt::format("stage/{}", rank), "StageReady"};
      },
      [&](size_t rank) {
        auto order = stage_order(self->state, rank);
        change(order, rank);
        return std::tuple(
            make_msg<fbs::BuildStage>(context_of(*self, self->state.record.epoch), order));
      },
      std::move(all),
      [self](size_t, const error& e) {
        hear(self, heard::ask_failed{e.within("build the stages")});
      });
}

/// What ranks are told of what they are left, by rank: as BuildStage has it.
struct settled_shares {
  std::vector<uint64_t> bytes, device_bytes;
  std::vector<bool> consume;
  bool second_version = false;
};

/// By what each has answered.
settled_shares settle_shares(const job_plan& plan, const std::vector<msg<fbs::StageReady>>& said) {
  std::vector<uint64_t> left, left_of_gpu;
  std::vector<drive_share> drives;
  for (const auto& r : said) {
    left.push_back(r->swap_bytes());
    left_of_gpu.push_back(r->swap_device_bytes());
    drives.push_back({r->swap_file_bytes(), r->swap_free_bytes()});
  }
  settled_shares out{agreed_bytes(plan, left), agreed_bytes(plan, left_of_gpu), {}, false};
  out.second_version =
      std::all_of(said.begin(), said.end(), [](const auto& r) { return r->swap_second_version(); });
  const bool all = must_consume(drives);
  for (const auto& d : drives) out.consume.push_back(all && d.file_bytes > 0);
  return out;
}

void order_stages(run_pointer self, bool weights_follow, const settled_shares& shares) {
  ask_stages(
      self,
      [&](fbs::BuildStageT& order, size_t rank) {
        order.weights_follow = weights_follow;
        order.swap_bytes = shares.bytes[rank];
        order.swap_device_bytes = shares.device_bytes[rank];
        order.swap_consumes = shares.consume[rank];
        order.swap_second_version = shares.second_version;
      },
      [self](const std::vector<msg<fbs::StageReady>>& replies) {
        heard::phase_done done{start_phase::build_stages};
        for (const auto& r : replies) done.most_bytes = std::max(done.most_bytes, r->bytes());
        note_controls(self->state, replies);
        hear(self, std::move(done));
      });
}

}  // namespace

void build_stages(run_pointer self, bool weights_follow) {
  const auto& st = self->state;
  const auto ranks = st.crew.stages.size();
  if (!asks_ranks_first(st.job.plan().job))
    return order_stages(self, weights_follow,
                        {std::vector<uint64_t>(ranks), std::vector<uint64_t>(ranks),
                         std::vector<bool>(ranks), false});
  ask_stages(
      self, [](fbs::BuildStageT& order, size_t) { order.only_asks = true; },
      [self, weights_follow](const std::vector<msg<fbs::StageReady>>& replies) {
        order_stages(self, weights_follow, settle_shares(self->state.job.plan(), replies));
      });
}

}  // namespace troupe::train
