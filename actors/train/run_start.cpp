// Loaders, stages, data plane, first weights: each phase asks all its targets and goes on when all
// have answered.
#include "actors/train/run_start.hpp"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/context.hpp"
#include "actors/train/addresses_policy.hpp"
#include "actors/train/gather.hpp"
#include "actors/train/resume_policy.hpp"

namespace troupe::train {

namespace {

/// Longest a phase may take: tokenising and allocating are minutes at worst.
constexpr auto phase_timeout = std::chrono::minutes(30);
constexpr auto short_timeout = std::chrono::minutes(1);

/// For gather(): any of a kind.
auto anyone(const char* whom, const char* what) {
  return [whom, what](size_t) { return awaited{whom, what}; };
}

/// The phases in order; holds what the end of each needs.
class starter : public std::enable_shared_from_this<starter> {
 public:
  starter(run_pointer self, std::function<void()> ready, std::function<void(const error&)> failed)
      : self_(self), ready_(std::move(ready)), failed_(std::move(failed)) {}

  /// First of all: what cannot be saved need not be trained.
  void open_archive() {
    enter(self_, "opening the archive");
    ask_for<fbs::CheckpointFolder>(
        self_, self_->state.options.archive, short_timeout,
        make_msg<fbs::OpenArchive>(context(), [](auto&) {}), {"archive", "the open archive"},
        [me = shared_from_this()](const msg<fbs::CheckpointFolder>& folder) {
          me->self_->state.archive_folder = folder->directory() ? folder->directory()->str() : "";
          me->open_loaders();
        },
        [me = shared_from_this()](const error& e) { me->failed_(e.within("open the archive")); });
  }

 private:
  void open_loaders() {
    auto& st = self_->state;
    enter(self_, "opening the data");
    std::vector<loader_actor> targets;
    for (const auto& l : st.options.loaders) targets.push_back(l.loader);
    gather<fbs::LoaderReady>(
        self_, targets, phase_timeout, anyone("loader/*", "open data"),
        [this](size_t i) {
          const auto& o = self_->state.options;
          return std::tuple(make_msg<fbs::OpenLoader>(context(), [&](auto& m) {
            m.config_toml = self_->state.config_toml;
            m.vocab = static_cast<uint32_t>(o.plan.model.vocab);
            m.consumers = o.loaders[i].ranks;
            m.first_step = self_->state.step + 1;
            m.first_row = first_row_after(self_->state.tokens, o.plan.job.train.seq_len);
            m.tells_progress = i == 0;
          }));
        },
        [me = shared_from_this()](const std::vector<msg<fbs::LoaderReady>>& replies) {
          for (const auto& r : replies) me->self_->state.loaders.push_back(r.unpack());
          me->tell_data();
          me->build_stages();
        },
        failing("open the data"));
  }

  message_context context() { return context_of(*self_, self_->state.options.epoch); }

  std::function<void(size_t, const error&)> failing(std::string what) {
    return [me = shared_from_this(), what = std::move(what)](size_t, const error& e) {
      me->failed_(e.within(what));
    };
  }

  void tell_data() {
    auto& st = self_->state;
    if (st.loaders.empty()) return;
    const auto& l = st.loaders.front();
    st.has_validation = l.validation_windows > 0;
    const auto per_step = static_cast<double>(st.options.plan.job.train.batch);
    say(self_,
        fmt::format("data: {} tokens, {} training windows ({:.1f} steps an epoch), {} held out",
                    l.tokens, l.train_windows, static_cast<double>(l.train_windows) / per_step,
                    l.validation_windows));
  }

  void build_stages() {
    enter(self_, "building the stages");
    gather<fbs::StageReady>(
        self_, self_->state.options.stages, phase_timeout, each_stage("StageReady"),
        [this](size_t i) {
          const auto& o = self_->state.options;
          const auto& place = o.plan.ranks[i];
          return std::tuple(make_msg<fbs::BuildStage>(context(), [&](fbs::BuildStageT& m) {
            m.rank = static_cast<uint32_t>(i);
            m.data_rank = static_cast<uint32_t>(place.data_rank);
            m.data_ranks = static_cast<uint32_t>(o.plan.job.parallel.data);
            m.pipeline_rank = static_cast<uint32_t>(place.pipeline_rank);
            m.pipeline_ranks = static_cast<uint32_t>(o.plan.job.parallel.pipeline);
            m.first_layer = static_cast<uint32_t>(place.layers.first);
            m.last_layer = static_cast<uint32_t>(place.layers.last);
            m.threads = static_cast<uint32_t>(o.threads[i]);
            m.device = o.devices.names[i];
            m.shared_devices = o.devices.shared;
            m.config_toml = self_->state.config_toml;
          }));
        },
        [me = shared_from_this()](const std::vector<msg<fbs::StageReady>>& replies) {
          me->tell_model(replies);
          me->attach_loaders();
        },
        failing("build the stages"));
  }

  void tell_model(const std::vector<msg<fbs::StageReady>>& replies) {
    const auto& plan = self_->state.options.plan;
    uint64_t most = 0;
    for (const auto& r : replies) most = std::max(most, r->bytes());
    say(self_,
        fmt::format("model: {} with {} layers, {:.2f} M parameters; {} data x {} pipeline ranks, "
                    "{:.0f} MiB on the largest",
                    gpu::to_string(plan.model.family), plan.model.layers,
                    static_cast<double>(plan.model.parameters()) / 1e6, plan.job.parallel.data,
                    plan.job.parallel.pipeline, static_cast<double>(most) / (1 << 20)));
  }

  void attach_loaders() {
    const auto& o = self_->state.options;
    std::vector<stage_actor> targets;
    std::vector<size_t> loader_of;
    for (size_t l = 0; l < o.loaders.size(); ++l)
      for (auto rank : o.loaders[l].ranks) {
        targets.push_back(o.stages[rank]);
        loader_of.push_back(l);
      }
    gather<fbs::Ack>(
        self_, targets, short_timeout, anyone("stage/*", "an attached loader"),
        [this, loader_of](size_t i) {
          const auto& facts = self_->state.loaders[loader_of[i]];
          auto m = make_msg<fbs::AttachLoader>(context(), [&](auto& a) {
            a.shared_memory = facts.shared_memory;
            a.slot_bytes = facts.slot_bytes;
            a.slots = facts.slots;
          });
          return std::tuple(m, caf::actor_cast<caf::strong_actor_ptr>(
                                   self_->state.options.loaders[loader_of[i]].loader));
        },
        [me = shared_from_this()](const auto&) { me->introduce(); }, failing("attach the loaders"));
  }

  /// Rank of the stage `by` places along the same pipeline, or -1.
  int neighbour(size_t rank, int by) const {
    const auto& o = self_->state.options;
    const int64_t p = o.plan.ranks[rank].pipeline_rank + by;
    if (p < 0 || p >= o.plan.job.parallel.pipeline) return -1;
    return static_cast<int>(p * o.plan.job.parallel.data + o.plan.ranks[rank].data_rank);
  }

  void introduce() {
    gather<fbs::Ack>(
        self_, self_->state.options.stages, short_timeout, each_stage("known neighbours"),
        [this](size_t i) {
          const auto& stages = self_->state.options.stages;
          const int previous = neighbour(i, -1);
          const int next = neighbour(i, +1);
          auto handle = [&](int rank) {
            return rank < 0
                       ? caf::strong_actor_ptr{}
                       : caf::actor_cast<caf::strong_actor_ptr>(stages[static_cast<size_t>(rank)]);
          };
          auto m = make_msg<fbs::Neighbours>(context(), [&](auto& n) {
            n.previous_rank = previous;
            n.next_rank = next;
          });
          return std::tuple(m, handle(previous), handle(next));
        },
        [me = shared_from_this()](const auto&) { me->open_data_plane(); },
        failing("introduce the stages"));
  }

  void open_data_plane() {
    enter(self_, "connecting the data plane");
    gather<fbs::DataPlaneOffer>(
        self_, self_->state.options.stages, short_timeout, each_stage("DataPlaneOffer"),
        [this](size_t i) {
          return std::tuple(make_msg<fbs::OpenDataPlane>(
              context(), [&](auto& m) { m.host = self_->state.options.hosts[i]; }));
        },
        [me = shared_from_this()](const std::vector<msg<fbs::DataPlaneOffer>>& offers) {
          me->connect_data_plane(offers);
        },
        failing("open the data plane"));
  }

  /// Each rank is sent what the others offer to it.
  void connect_data_plane(const std::vector<msg<fbs::DataPlaneOffer>>& offers) {
    address_book book;
    for (const auto& offer : offers)
      if (auto good = book.add(offer); !good) return failed_(good.error());
    if (auto good = book.check(); !good) return failed_(good.error());
    gather<fbs::DataPlaneReady>(
        self_, self_->state.options.stages, short_timeout, each_stage("DataPlaneReady"),
        [this, &book](size_t i) {  // called before gather() returns
          return std::tuple(make_msg<fbs::DataPlaneTable>(
              context(), [&](auto& m) { m.groups = book.tables_for(i); }));
        },
        [me = shared_from_this()](const auto&) { me->load(); }, failing("connect the data plane"));
  }

  void load() {
    const auto& st = self_->state;
    const auto& model = st.options.plan.job.model;
    const bool pretrained = !model.path.empty() && model.init != config::weight_init::random;
    if (!st.options.resume && !pretrained) return ready_();
    enter(self_, "loading weights");
    const bool resumed = st.options.resume.has_value();
    const auto folder = resumed ? st.options.resume->path.string() : model.path;
    say(self_, resumed ? fmt::format("resuming after step {} from {}", st.step, folder)
                       : fmt::format("starting from the weights of {}", folder));
    gather<fbs::Loaded>(
        self_, st.options.stages, phase_timeout, each_stage("loaded weights"),
        [this, folder, resumed](size_t) {
          return std::tuple(make_msg<fbs::LoadCheckpoint>(context(), [&](auto& m) {
            m.directory = folder;
            m.optimizer = resumed;
          }));
        },
        [me = shared_from_this()](const auto&) { me->ready_(); },
        failing(fmt::format("load {}", folder)));
  }

  run_pointer self_;
  std::function<void()> ready_;
  std::function<void(const error&)> failed_;
};

}  // namespace

void say(run_pointer self, std::string text, fbs::NoticeLevel level) {
  const auto& o = self->state.options;
  self->send(o.reporter, make_msg<fbs::Notice>(context_of(*self, o.epoch), [&](auto& n) {
               n.level = level;
               n.text = std::move(text);
             }));
}

void enter(run_pointer self, const char* phase) {
  const auto& st = self->state;
  publish(self, phase,
          fmt::format(R"({{"step":{},"steps":{},"loss":{},"saved_step":{},"saving":[{}],)"
                      R"("checkpoints":{},"skipped_checkpoints":{},"checkpoint_wait_ms":{:.3f}}})",
                      st.step, st.options.plan.job.train.steps,
                      std::isfinite(st.loss) ? fmt::format("{}", st.loss) : "null", st.saved_step,
                      fmt::join(st.pace.open(), ","), st.checkpoints, st.pace.skipped(),
                      st.checkpoint_wait_ms));
}

void start_up(run_pointer self, std::function<void()> ready,
              std::function<void(const error&)> failed) {
  std::make_shared<starter>(self, std::move(ready), std::move(failed))->open_archive();
}

}  // namespace troupe::train
