// Files around the shards, and the one rename that makes them a checkpoint.
#include "actors/checkpoint/committer.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/checkpoint/model_files.hpp"
#include "actors/job/catalog.hpp"
#include "actors/job/replicas_policy.hpp"
#include "gpu/model/hf_folder.hpp"
#include "gpu/model/saved_state.hpp"
#include "gpu/model/state_saver.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/export.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"
#include "io/folder/plain.hpp"
#include "messages/text.hpp"

namespace troupe::checkpoint {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;

namespace {

using committer_pointer = traced_pointer<committer_actor, committer_state>;

cp::manifest_head head_of(const committer_options& o, const fbs::CommitCheckpointT& votes,
                          uint64_t now_ms) {
  const auto& job = o.plan.job;
  cp::manifest_head h;
  h.job = job.job.name;
  h.step = votes.step;
  h.epoch = o.epoch;
  h.layout = job.grid();
  h.slot_bytes = train::slot_bytes_of(job);
  h.tokens = votes.tokens;
  h.loss = votes.loss;
  if (votes.validation_loss >= 0) h.validation_loss = votes.validation_loss;
  h.wall_time_ms = now_ms;
  h.line = o.origin.at(votes.step);
  return h;
}

uint64_t unix_ms() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
}

void remove_expired(committer_state& st) {
  const auto& c = st.options.plan.job.checkpoint;
  std::vector<std::string> in_use;
  for (const auto step : st.held) in_use.push_back(cp::complete_name(step));
  const cp::retention rules{static_cast<uint64_t>(c.keep), static_cast<uint64_t>(c.keep_every),
                            static_cast<uint64_t>(c.keep_best)};
  if (auto removed = st.caretaker.retain(st.options.dir, rules, in_use); !removed)
    spdlog::warn("checkpoint retention: {}", render(removed.error()));
}

/// Whether what lies in `folder` was exported from this very checkpoint.
bool is_exported(const cp::reader& from, io::tensor_dtype type, const fs::path& folder) {
  const auto mark = io::read_mark(folder);
  return mark && mark->kind == io::folder_kind::model &&
         mark->of == cp::export_source(from.content().head, type);
}

/// The export takes the place of an older one whole, or not at all. Nothing is done again that a
/// run before did.
result<fs::path> export_checkpoint(io::file_system& files, const fs::path& from,
                                   const fs::path& folder) {
  TROUPE_TRY(held, cp::reading::begin(files, from));
  TROUPE_TRY(r, cp::reader::open(files, from));
  TROUPE_TRY(type, cp::export_type(r));
  return export_to(
      folder, [&](const fs::path& to) { return is_exported(r, type, to); },
      [&](const fs::path& to) -> status {
        cp::export_options options;
        options.type = type;
        TROUPE_CHECK(cp::export_model(r, to, options));
        return {};
      });
}

}  // namespace

result<fs::path> export_to(const fs::path& folder,
                           const std::function<bool(const fs::path&)>& is_done,
                           const std::function<status(const fs::path&)>& make) {
  constexpr int most_places = 99;
  status refused;
  for (int place = 1; place <= most_places; ++place) {
    const fs::path to =
        place == 1 ? folder : fs::path(fmt::format("{}-{}", folder.string(), place));
    if (is_done(to)) {
      static_cast<void>(
          cp::remove_half_export(to));  // of one that was killed when it had placed it
      return to;
    }
    const auto made = make(to);
    if (!made && made.error().code != errc::permission) return made.error();
    if (!made && refused) refused = made.error();
    if (!made) continue;
    if (!refused) spdlog::warn("{}: it is in {}", refused.error().message, to.string());
    return to;
  }
  return refused.error();
}

result<std::vector<cp::rank_plan>> shares_of(const train::job_plan& plan) {
  const int data = plan.job.grid().data;
  std::vector<cp::plan_stage> stages;
  for (const int rank : plan.ranks.at(0).at.group(group_kind::pipeline).members) {
    const auto& place = plan.ranks.at(static_cast<size_t>(rank));
    const auto shape = train::shape_of(plan.job, place.at, place.layers);
    stages.push_back(gpu::saved_chunks(gpu::stage_chunks(plan.model, shape), data));
  }
  return cp::plan_save(stages, {data});
}

namespace {

/// What a vote tells, and of which pieces: those of the rank's share, or, where chunks have shards
/// of their own, what the shards say themselves (ARC-3).
result<cp::shard_facts> facts_of(io::disk& d, const fs::path& partial, const fbs::SavedT& vote,
                                 const cp::rank_plan& share) {
  cp::shard_facts facts{vote.rank,          vote.bytes,       vote.stream_bytes,
                        vote.footer_crc32c, vote.slot_digest, {}};
  for (const auto& c : vote.chunks)
    facts.chunks.push_back(
        {c->chunk, c->bytes, c->stream_bytes, c->slot_bytes, c->footer_crc32c, c->slot_digest});
  uint64_t bytes = vote.stream_bytes;
  if (facts.chunks.empty()) {
    for (const auto& p : share.pieces) facts.pieces.push_back(p.what);
  } else {
    TROUPE_TRY(told, cp::read_pieces(d, partial, facts));
    bytes = told;
  }
  if (bytes != share.stream_bytes)
    return error{errc::bug, fmt::format("rank {} wrote {} bytes, not its share", vote.rank, bytes)};
  return facts;
}

}  // namespace

result<fs::path> commit(io::disk& d, const committer_options& options,
                        std::span<const cp::rank_plan> shares, const fbs::CommitCheckpointT& votes,
                        uint64_t now_ms) {
  if (votes.shards.size() != shares.size())
    return error{errc::bug, fmt::format("{} votes for a checkpoint of {} ranks",
                                        votes.shards.size(), shares.size())};
  std::vector<cp::shard_facts> shards;
  for (const auto& vote : votes.shards) {
    if (vote->rank >= shares.size())
      return error{errc::bug, fmt::format("a vote of rank {}, of {}", vote->rank, shares.size())};
    TROUPE_TRY(facts, facts_of(d, votes.directory, *vote, shares[vote->rank]));
    shards.push_back(std::move(facts));
  }
  auto others = options.model_files;
  if (others.empty()) {
    TROUPE_TRY(gathered, model_files(options.plan));
    others = std::move(gathered);
  }
  others.push_back({std::string(state_file), votes.state});
  return cp::commit_save(d, votes.directory, head_of(options, votes, now_ms), std::move(shards),
                         others);
}

status point_latest(io::file_system& files, const fs::path& complete) {
  const auto is_ours = [](const std::string& target) {
    return cp::parse_folder_name(target).has_value();
  };
  const auto link = complete.parent_path() / "latest";
  return files.point_link(link, complete.filename().string(), is_ours);
}

namespace {

msg<fbs::CheckpointFolder> folder(committer_pointer self, const message_header& cause,
                                  const fs::path& path) {
  return make_msg<fbs::CheckpointFolder>(context_of(*self, cause),
                                         [&](auto& f) { f.directory = path.string(); });
}

void show(committer_pointer self, const char* state) {
  publish(self, state, [&](fbs::CommitterStatusT& s) {
    s.committed = self->state.committed;
    s.abandoned = self->state.abandoned;
  });
}

std::optional<io::folder_identity> identity_of(committer_state& st) {
  const auto found = st.disk->identity(st.options.dir);
  return found ? std::optional(*found) : std::nullopt;
}

/// ARC-4. Which of its parents are new is not known, nor whether each may be opened.
void settle_folder(committer_state& st) {
  const auto now = identity_of(st);
  if (std::exchange(st.folder, now) == now) return;
  spdlog::warn("{} was taken away and made again", st.options.dir.string());
  for (auto p = st.options.dir; p != p.parent_path(); p = p.parent_path())
    if (!st.disk->sync_dir(p.parent_path())) return;
}

/// ARC-5
void make_again(committer_state& st) {
  const auto there = st.disk->identity(st.options.dir);
  if (there || there.error().code != errc::not_found) return;
  spdlog::warn("{} was taken away: it is made again", st.options.dir.string());
  if (auto made = io::make_folders(*st.disk, st.options.dir); !made)
    spdlog::warn("{}", render(made.error()));
  st.folder = identity_of(st);
}

caf::result<msg<fbs::CheckpointFolder>> open(committer_pointer self,
                                             const msg<fbs::OpenFolder>& m) {
  auto& st = self->state;
  st.options.dir = fs::absolute(st.options.dir).lexically_normal();
  if (!st.options.dir.has_filename()) st.options.dir = st.options.dir.parent_path();  // "dir/"
  if (!st.whole) st.whole = st.options.plan;
  if (const auto layers = text_of(m->layers());
      !layers.empty() && train::is_split_open(st.whole->job))
    if (auto settled = train::settle_layers(*st.whole, layers); !settled)
      return to_caf(settled.error());
  const auto replicas = m->replicas() == 0 ? st.whole->job.parallel.data : m->replicas();
  auto plan = train::with_replicas(*st.whole, replicas);
  if (!plan) return to_caf(plan.error());
  auto shares = shares_of(*plan);
  if (!shares) return to_caf(shares.error());
  st.options.plan = std::move(*plan);
  auto disk = st.options.storage->open_disk({io::disk_backend::threads, 1, 1, {}});
  if (!disk) return to_caf(disk.error());
  if (auto made = io::make_folders(**disk, st.options.dir); !made) return to_caf(made.error());
  st.disk = std::move(*disk);
  st.shares = std::move(*shares);
  st.folder = identity_of(st);
  return folder(self, m.header(), st.options.dir);
}

/// Retention comes after the answer: what is complete need not wait for what is given up.
caf::result<msg<fbs::CheckpointFolder>> commit(committer_pointer self,
                                               const msg<fbs::CommitCheckpoint>& m) {
  auto& st = self->state;
  if (!st.disk) return to_caf({errc::bug, "the committer is not open", "send OpenFolder first"});
  auto rp = self->make_response_promise<msg<fbs::CheckpointFolder>>();
  show(self, "committing");
  auto votes = m.unpack();
  st.options.epoch = m.epoch();  // in which its shards were written
  votes.shards = st.votes.take(m->step(), std::move(votes.shards));
  if (st.options.model_files.empty())
    if (auto gathered = model_files(st.options.plan)) st.options.model_files = std::move(*gathered);
  auto done = commit(*st.disk, st.options, st.shares, votes, unix_ms());
  if (done) {
    ++st.committed;
    settle_folder(st);
    rp.deliver(folder(self, m.header(), *done));
    if (m->step() >= st.newest)
      if (auto made = point_latest(*st.disk, *done); !made)
        spdlog::warn("latest does not point to {}: {}", done->string(), render(made.error()));
    st.newest = std::max(st.newest, m->step());
    remove_expired(st);
  } else {
    rp.deliver(to_caf(done.error()));
  }
  show(self, "idle");
  return rp;
}

/// What was held may have lost all rules that kept it.
void hold(committer_pointer self, const msg<fbs::HoldCheckpoint>& m) {
  auto& st = self->state;
  if (m->hold()) {
    st.held.insert(m->step());
    return;
  }
  const auto one = st.held.find(m->step());
  if (one == st.held.end()) return;
  st.held.erase(one);
  if (st.disk) remove_expired(st);
}

/// CAT-4: in both tiers.
caf::result<msg<fbs::CheckpointChosen>> choose(committer_pointer self,
                                               const msg<fbs::ChooseCheckpoint>& m) {
  auto& st = self->state;
  show(self, "choosing an older checkpoint");
  std::vector<fs::path> tiers{st.options.dir};
  if (const auto& second = st.options.plan.job.checkpoint.second.dir; !second.empty())
    tiers.push_back(io::plain(second));
  std::vector<std::string> unsound;
  if (m->unsound() != nullptr)
    for (const auto* path : *m->unsound()) unsound.push_back(text_of(path));
  auto found = choose_older(st.options.storage->files(), tiers, st.options.origin, unsound,
                            m->at_most());
  show(self, "idle");
  if (!found) return to_caf(found.error());
  st.newest = found->from.step;
  if (found->from.path.parent_path() == st.options.dir)
    if (auto made = point_latest(st.options.storage->files(), found->from.path); !made)
      spdlog::warn("latest does not point to {}: {}", found->from.path.string(),
                   render(made.error()));
  return make_msg<fbs::CheckpointChosen>(context_of(*self, m.header()), [&](auto& c) {
    c.directory = found->from.path.string();
    c.step = found->from.step;
    c.state = found->state;
    c.told = std::move(found->told);
  });
}

/// Whether the job's checkpoints lie there: the last one of a run may go into the second tier.
bool is_tier(const committer_options& o, const fs::path& dir) {
  const auto& second = o.plan.job.checkpoint.second.dir;
  return dir == o.dir ||
         (!second.empty() && dir / "" == fs::absolute(second).lexically_normal() / "");
}

/// The run names the folder; only a partial one of this committer is ever removed.
void abandon(committer_pointer self, const msg<fbs::AbandonCheckpoint>& m) {
  auto& st = self->state;
  st.votes.forget(m->step());
  const fs::path path = text_of(m->directory());
  const auto name = cp::parse_folder_name(path.filename().string());
  if (!st.disk || !is_tier(st.options, path.parent_path()) || !name ||
      name->state != cp::folder_state::partial)
    return;
  ++st.abandoned;
  const auto gone = cp::remove_folder(*st.disk, path);
  if (!gone && gone.error().code != errc::not_found && st.left.insert(path.string()).second)
    spdlog::warn("{}: {}", path.string(), render(gone.error()));
  make_again(st);
  show(self, "idle");
}

/// What fails leaves a whole checkpoint without its loss, which the run says.
caf::result<msg<fbs::Ack>> amend(committer_pointer self, const msg<fbs::AmendCheckpoint>& m) {
  const fs::path checkpoint = text_of(m->directory());
  const auto amended =
      cp::amend_loss(self->state.options.storage->files(), checkpoint, m->validation_loss());
  if (!amended) return to_caf(amended.error());
  return make_msg<fbs::Ack>(context_of(*self, m.header()), [](auto&) {});
}

/// ARC-6.
status give_up_own(const committer_options& o, const fs::path& checkpoint) {
  const auto plain = fs::absolute(checkpoint).lexically_normal();
  if (plain != o.origin.checkpoint && !is_tier(o, plain.parent_path()))
    return cp::not_given_up(plain.string(), "it is no checkpoint of this job");
  return cp::give_up(o.storage->files(), checkpoint);
}

/// Else the run has gone on without: that checkpoint may be what it goes on from (ARC-6).
bool is_awaited(committer_pointer self, const msg<fbs::GiveUpCheckpoint>& asked) {
  const auto since_ns = std::max<int64_t>(0, now_ns(*self) - asked.header().sent_ns);
  return static_cast<uint64_t>(since_ns / ns_per_ms) < asked->left_ms();
}

caf::result<msg<fbs::Ack>> give_up(committer_pointer self, const msg<fbs::GiveUpCheckpoint>& m) {
  const fs::path checkpoint = text_of(m->directory());
  if (!is_awaited(self, m)) return to_caf(cp::given_up_too_late(checkpoint.string()));
  show(self, "giving a checkpoint up");
  const auto gone = give_up_own(self->state.options, checkpoint);
  show(self, "idle");
  if (!gone) return to_caf(gone.error());
  auto told = fmt::format("{} is given up: its files are the state of this run (swap.consume)",
                          checkpoint.string());
  spdlog::warn("{}", told);
  return make_msg<fbs::Ack>(context_of(*self, m.header()),
                            [&](auto& a) { a.text = std::move(told); });
}

}  // namespace

committer_actor::behavior_type committer(committer_pointer self, const train::spawn_record& record,
                                         io::storage* storage) {
  guard_mailbox(self);
  introduce(self, "committer", record.epoch);
  note_spawn_record(record);
  self->set_timeouts(call_timeouts(record.plan.job));
  auto& st = self->state;
  st.options = {record.plan.job.checkpoint.dir, record.epoch, record.plan, record.origin(),
                storage};
  st.caretaker = cp::caretaker(st.options.origin, st.options.storage->files());
  show(self, "idle");
  return {
      status_handler(self),
      [self](const msg<fbs::OpenFolder>& m) { return open(self, m); },
      [self](const msg<fbs::CommitCheckpoint>& m) { return commit(self, m); },
      [self](const msg<fbs::SaveVotes>& m) {
        auto& state = self->state;
        if (auto kept = state.votes.keep(m.unpack(), state.shares.size()); !kept)
          spdlog::warn("{}", render(kept.error()));  // the commit will say what is missing
      },
      [self](const msg<fbs::AbandonCheckpoint>& m) { abandon(self, m); },
      [self](const msg<fbs::ExportModel>& m) -> caf::result<msg<fbs::CheckpointFolder>> {
        show(self, "exporting");
        const auto to = fs::absolute(text_of(m->directory()));
        auto done = export_checkpoint(self->state.options.storage->files(),
                                      text_of(m->checkpoint()), to);
        show(self, "idle");
        if (!done) return to_caf(done.error().within("export the model"));
        return folder(self, m.header(), *done);
      },
      [self](const msg<fbs::ChooseCheckpoint>& m) { return choose(self, m); },
      [self](const msg<fbs::HoldCheckpoint>& m) { hold(self, m); },
      [self](const msg<fbs::AmendCheckpoint>& m) { return amend(self, m); },
      [self](const msg<fbs::GiveUpCheckpoint>& m) { return give_up(self, m); },
  };
}

}  // namespace troupe::checkpoint
