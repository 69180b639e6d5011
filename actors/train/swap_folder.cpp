// Sums, and a folder's life.
#include "actors/train/swap_folder.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "actors/train/batch_memory.hpp"
#include "actors/train/gpu_budget.hpp"
#include "actors/train/inputs.hpp"
#include "actors/train/stream_hash.hpp"
#include "gpu/back_end.hpp"
#include "gpu/collective/communicator.hpp"
#include "gpu/model/pinned_upload.hpp"
#include "gpu/swap/chunk_places.hpp"
#include "io/base/text.hpp"
#include "io/disk/drive_traits.hpp"
#include "io/disk/file_system.hpp"
#include "io/folder/owned.hpp"
#include "io/formats/hf_config.hpp"
#include "messages/operations.hpp"

namespace troupe::train {

namespace {

namespace fs = std::filesystem;

/// Of a process without ranks: its pages, those of libraries it has touched, stacks, messages.
constexpr uint64_t program_bytes = uint64_t{96} << 20;
/// Of what replicas tell each other of their drives (rank_engine::share_moves): a page.
constexpr uint64_t shared_moves_bytes = 4096;
constexpr const char* files_name = "files";
constexpr const char* rank_part = "-rank-";  // of a folder's name
constexpr const char* chunk_part = ".chunk-";  // of a shard's name that is a swap file's

/// The mount that a path is in; 0 where the kernel does not tell.
uint64_t mount_of(const fs::path& path) {
  struct statx facts {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &facts) != 0) return 0;
  return (facts.stx_mask & STATX_MNT_ID) != 0 ? facts.stx_mnt_id : 0;
}

/// Of a rank's files.
fs::path folder_of(const fs::path& dir, std::string_view job, int rank) {
  return dir / fmt::format("{}{}{:05}", job, rank_part, rank);
}

bool same_device(const fs::path& a, const fs::path& b) {
  struct stat of_a {}, of_b {};
  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev;
}

}  // namespace

gpu::clip_way way_of(config::clip_way way) {
  switch (way) {
    case config::clip_way::automatic:
      return gpu::clip_way::automatic;
    case config::clip_way::speculate:
      return gpu::clip_way::speculate;
    case config::clip_way::hold:
      return gpu::clip_way::hold;
    case config::clip_way::twice:
      return gpu::clip_way::twice;
  }
  return gpu::clip_way::automatic;
}

gpu::weights_choice choice_of(config::weights_choice choice) {
  switch (choice) {
    case config::weights_choice::automatic:
      return gpu::weights_choice::automatic;
    case config::weights_choice::stored:
      return gpu::weights_choice::stored;
    case config::weights_choice::derived:
      return gpu::weights_choice::derived;
  }
  return gpu::weights_choice::automatic;
}

uint64_t workers_of(const config::job& job) {
  int64_t most = 1;
  for (const auto& n : job.cluster.node) most = std::max(most, n.workers);
  return static_cast<uint64_t>(most);
}

fs::path present_of(const fs::path& dir) {
  std::error_code failed;
  auto there = fs::absolute(dir);
  while (!fs::exists(there, failed) && there.has_relative_path()) there = there.parent_path();
  return there;
}

std::vector<std::string> drive_remarks(const fs::path& dir) {
  const auto there = present_of(dir);
  return io::remarks_on(there, io::traits_of(there));
}

namespace {

/// Of a rank's groups, where ranks share a GPU, for each stream on which they move anything
/// (SGB-2): all of them sum on one, and a stage's transfers have lanes of their own.
uint64_t staged_bytes(const engine_options& options) {
  if (!on_gpu(options) || (!options.shared_devices && options.gpu_at.ranks <= 1)) return 0;
  constexpr auto lanes = static_cast<uint64_t>(transfer_streams);
  const auto& grid = options.at.grid;
  uint64_t buffers = grid.data > 1 ? 1 : 0;
  if (grid.pipeline > 1) buffers += 1 + lanes + (options.model.tied ? 1 : 0);
  return buffers * gpu::staging_bytes;
}

}  // namespace

uint64_t process_overhead_bytes(const config::job& job, const engine_options& options) {
  const auto batches = batch_memory::slot_bytes_of(batch_of(job)) *
                       static_cast<uint64_t>(train_slots + validation_slots);
  const auto scratch =
      gpu::scratch_bytes(options.device, options.model, options.shape, options.threads);
  const uint64_t sums = options.at.grid.ranks() > 1 ? gpu::group_memory_bytes : 0;
  const uint64_t digests =
      stream_hash::usual_piece_bytes *
      ((options.at.grid.data > 1 ? 1 : 0) + (job.health.recheck_every > 0 ? 1 : 0));
  const uint64_t moves = options.at.grid.data > 1 ? shared_moves_bytes : 0;
  const bool notes_sums = options.at.grid.data > 1;
  const uint64_t norms =
      notes_sums ? gpu::norm_scratch_bytes(options.device, options.model) : 0;  // ENG-11
  const uint64_t uploads =  // of a restored state
      on_gpu(options) ? gpu::pinned_upload::usual_block_bytes * gpu::pinned_upload::usual_blocks
                      : 0;
  return program_bytes + batches +
         workers_of(job) * (static_cast<uint64_t>(job.checkpoint.ring_bytes) + scratch + sums +
                            staged_bytes(options) + digests + moves + norms + uploads);
}

uint64_t swap_budget_bytes(const config::job& job, const engine_options& options) {
  const auto all = static_cast<uint64_t>(job.swap.host_bytes);
  const auto overhead = process_overhead_bytes(job, options);
  const auto own = all <= overhead ? 0 : (all - overhead) / workers_of(job);
  return options.swap_bytes > 0 ? std::min(own, options.swap_bytes) : own;
}

bool holds_gradients(const engine_options& options) {
  return options.at.grid.pipeline > 1;
}

bool updates_wait(const engine_options& options) {
  return options.optimizer.clip_norm > 0 || holds_gradients(options);
}

gpu::residency_budget steps_of(const engine_options& options) {
  const auto way = holds_gradients(options) ? gpu::clip_way::hold : options.swap_clip;
  gpu::residency_budget out{0, updates_wait(options), options.rows() / options.shape.micro_batch,
                            way};
  out.measures = options.optimizer.kind == gpu::optimizer_step_args::rule::lamb;
  out.verifies = options.swap_verify;
  out.weights = options.swap_weights;
  return out;
}

namespace {

/// All layers compute again what backward needs.
void keep_nothing(gpu::stage_shape& shape) {
  shape.activations.assign(static_cast<size_t>(shape.layers()), gpu::activation_choice::recompute);
}

/// No drive is touched for a stage whose weights and state are all in memory: what was to spill is
/// kept, where there is room for that.
void spill_nothing(const model_config& model, gpu::stage_shape& shape, uint64_t bytes) {
  const auto instead = [&](gpu::activation_choice what) {
    auto out = shape;
    std::replace(out.activations.begin(), out.activations.end(), gpu::activation_choice::spill,
                 what);
    return out;
  };
  auto kept = instead(gpu::activation_choice::keep);
  const bool fits = gpu::plan_stage(model, kept).total() <= bytes;
  shape = fits ? std::move(kept) : instead(gpu::activation_choice::recompute);
}

/// The least that a stage takes whose layers keep nothing: with all of it in memory, and with what
/// can be on a drive there. Of a small model the first is less than what brings the state. What a
/// GPU of that memory has room for needs no twins.
struct least_needs {
  uint64_t in_memory = 0;
  gpu::memory_split swapped = {};
};

least_needs least_needs_of(const config::job& job, const engine_options& options,
                           uint64_t device_bytes = 0) {
  auto shape = options.shape;
  auto settled = options;
  settled.swap_clip = way_of(job.swap.clip);
  settled.swap_weights = choice_of(job.swap.weights);
  keep_nothing(shape);
  shape.where = {};
  least_needs out{gpu::plan_stage(options.model, shape).total(), {}};
  auto budget = steps_of(settled);
  budget.bytes = device_bytes;
  if (on_gpu(options)) budget.host_bytes = 0;
  shape.where = gpu::least_residency(options.model, shape, budget);
  out.swapped = gpu::needs_of(options.model, shape, budget);
  return out;
}

}  // namespace

uint64_t swap_floor_bytes(const config::job& job, const engine_options& options) {
  const auto device_bytes = on_gpu(options) ? device_budget_bytes(job, options) : 0;
  const auto least = least_needs_of(job, options, device_bytes);
  auto stage = std::min(least.in_memory, least.swapped.device_bytes);
  if (on_gpu(options))  // whose own memory is another budget's
    stage = least.in_memory <= device_bytes ? 0 : least.swapped.host_bytes;
  return process_overhead_bytes(job, options) + workers_of(job) * stage;
}

uint64_t device_floor_bytes(const config::job& job, const engine_options& options) {
  if (!on_gpu(options)) return 0;
  const auto least = least_needs_of(job, options);
  const auto stage = std::min(least.in_memory, least.swapped.device_bytes);
  return static_cast<uint64_t>(std::max<int64_t>(1, options.gpu_at.ranks)) *
         (stage + device_overhead_bytes(options));
}

void settle_host_bytes(config::job& job, uint64_t memory_bytes) {
  if (job.swap.dir.empty() || job.swap.host_bytes != 0) return;
  const bool together = job.cluster.launch == config::launch_mode::local;
  const auto processes = together ? std::max<uint64_t>(1, job.cluster.node.size()) : 1;
  job.swap.host_bytes =
      static_cast<int64_t>(memory_bytes / 100 * share_of_memory_percent / processes);
}

namespace {

void add_need(std::vector<folder_need>& to, const fs::path& dir, uint64_t bytes) {
  const auto known =
      std::find_if(to.begin(), to.end(), [&](const folder_need& f) { return f.dir == dir; });
  if (known == to.end())
    to.push_back({dir, bytes});
  else
    known->bytes += bytes;
}

/// The folders of each of the job's ranks that may be on this machine, of one stage. Where nodes
/// are elsewhere those of another rank are taken to be on this one's drives.
std::vector<std::vector<fs::path>> folders_here(const config::job& job,
                                                const engine_options& options) {
  const int ranks = options.at.grid.ranks();
  std::vector<std::vector<fs::path>> out;
  if (job.cluster.launch == config::launch_mode::local)
    for (int r = 0; r < ranks; ++r) out.push_back(swap_dirs_of(job, r));
  else
    out.assign(std::min(static_cast<size_t>(ranks), static_cast<size_t>(workers_of(job))),
               options.swap_dirs);
  return out;
}

/// The drives of a rank's folders, which are to have two versions of all that it and the job's
/// other ranks here put on them, beside checkpoints.
result<std::vector<swap_room>> rooms_for_versions(const config::job& job,
                                                  const engine_options& options) {
  uint64_t state = 0;
  for (const auto& chunk : gpu::stage_chunks(options.model, options.shape))
    state += static_cast<uint64_t>(chunk.count) * io::state_parts * sizeof(float);
  auto shape = options.shape;
  shape.where = gpu::least_residency(options.model, options.shape, steps_of(options));
  shape.where.speculates = true;
  const auto places = gpu::bytes_of_places(options.model, shape, options.swap_dirs.size());
  std::vector<folder_need> folders;
  const auto ranks = folders_here(job, options);
  uint64_t linked = 0;
  for (const auto& dirs : ranks)
    for (size_t i = 0; i < places.size(); ++i) {
      add_need(folders, dirs[i], places[i].files);
      if (on_one_drive(dirs[i], job.checkpoint.dir)) linked += places[i].state;
    }
  const bool one_folder = ranks.size() * places.size() == 1;
  auto beside = checkpoints_beside(job, state, one_folder ? state : std::min(linked, state));
  add_export(beside, job, options.model);
  return swap_rooms_of(folders, beside, job.job.name);
}

/// What is known of the drives of a rank that has them alone: what swap files may take of each.
/// Checkpoints need the rest.
void tell_room(gpu::residency_budget& budget, const config::job& job,
               const engine_options& options) {
  const auto rooms = rooms_for_versions(job, options);
  if (!rooms) return;
  std::vector<size_t> drives;
  for (const auto& dir : options.swap_dirs) {
    const auto drive = std::find_if(rooms->begin(), rooms->end(),
                                    [&](const swap_room& r) { return on_one_drive(dir, r.dir); });
    if (drive == rooms->end()) return;  // it has gone since
    drives.push_back(static_cast<size_t>(drive - rooms->begin()));
  }
  budget.folder_drives = std::move(drives);
  for (const auto& r : *rooms)
    budget.drive_bytes.push_back(r.free_bytes -
                                 std::min(r.free_bytes, r.checkpoint_bytes + r.export_bytes));
}

}  // namespace

bool has_room_for_versions(const config::job& job, const engine_options& options) {
  const auto rooms = rooms_for_versions(job, options);
  return rooms && std::all_of(rooms->begin(), rooms->end(), [](const auto& r) { return r.fits(); });
}

std::vector<fs::path> swap_dirs_of(const config::job& job, int rank) {
  constexpr std::string_view word = "{rank}";
  std::vector<fs::path> out;
  for (auto dir : job.swap.dir) {
    for (size_t at; (at = dir.find(word)) != dir.npos;)
      dir.replace(at, word.size(), std::to_string(rank));
    out.emplace_back(std::move(dir));
  }
  return out;
}

namespace {

bool keeps_all(const config::checkpoint_section& c) {
  return c.keep == 0 && c.keep_every == 0 && c.keep_best == 0;
}

/// Files of a chunk that keep a name: those of the checkpoints that are kept, of one that is going,
/// and of one that has just expired. Where none of them expires, none.
size_t old_files_of(const config::checkpoint_section& c) {
  constexpr int64_t worth_looking_at = 64;  // each is, at each checkpoint
  if (keeps_all(c) || c.keep >= worth_looking_at) return 0;
  const auto held = std::max<int64_t>(1, c.keep) + c.keep_best;
  return static_cast<size_t>(std::min(held + 2, worth_looking_at));
}

/// Where a GPU holds all of a stage its process has something to hold, too.
std::optional<error> lacks_overhead(const config::job& job, const engine_options& options) {
  const auto has = static_cast<uint64_t>(job.swap.host_bytes);
  const auto needs = process_overhead_bytes(job, options);
  if (!on_gpu(options) || has >= needs) return std::nullopt;
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return gpu::twins_too_large(mib(has), mib(needs));
}

}  // namespace

status settle_swap(engine_options& options, const config::job& job) {
  if (job.swap.dir.empty()) return {};
  options.swap_dirs = swap_dirs_of(job, options.at.rank);
  options.swap_patience = std::chrono::seconds(job.swap.patience_s);
  options.group_timeout += options.swap_patience;  // others wait for one that waits for room
  options.swap_verify = job.swap.verify;
  options.swap_old_files = old_files_of(job.checkpoint);
  options.process_bytes = static_cast<uint64_t>(job.swap.host_bytes) -
                          std::min(static_cast<uint64_t>(job.swap.host_bytes), program_bytes);
  options.device_bytes = on_gpu(options) ? device_limit_bytes(job, options) : 0;
  options.swap_clip = way_of(job.swap.clip);
  options.swap_weights = choice_of(job.swap.weights);
  options.swap_rates = rates_of(job.swap.rates);
  auto budget = steps_of(options);
  if (options.swap_second_version || options.at.grid.data > 1) {  // one answer for all replicas
    const bool has_room = options.swap_second_version ? *options.swap_second_version
                                                      : has_room_for_versions(job, options);
    budget.disk_bytes = has_room ? std::numeric_limits<uint64_t>::max() : 0;
  } else if (!holds_gradients(options)) {
    tell_room(budget, job, options);
  }
  const auto place = [&] {
    budget.bytes = swap_budget_bytes(job, options);
    if (on_gpu(options)) {
      budget.host_bytes = budget.bytes;
      budget.bytes = device_budget_bytes(job, options);
    }
    if (const auto lacking = lacks_overhead(job, options)) return result<gpu::residency>(*lacking);
    return gpu::plan_residency(options.model, options.shape, budget);
  };
  auto where = place();
  if (!where) {
    keep_nothing(options.shape);
    where = place();
  }
  options.shape.where =
      where ? std::move(*where) : gpu::least_residency(options.model, options.shape, budget);
  if (!where) return where.error();
  if (!options.shape.where.any_on_disk()) spill_nothing(options.model, options.shape, budget.bytes);
  return {};
}

std::optional<gpu::machine_rates> rates_of(const config::swap_rates_section& from) {
  if (from == config::swap_rates_section{}) return std::nullopt;
  gpu::machine_rates out;
  out.flops_s = static_cast<double>(from.flops_s);
  out.read_bytes_s = static_cast<double>(from.read_bytes_s);
  out.write_bytes_s = static_cast<double>(from.write_bytes_s);
  out.duplex = from.duplex;
  out.updates_s = static_cast<double>(from.updates_s);
  out.processors.flops_s = static_cast<double>(from.processor_flops_s);
  out.processors.updates_s = static_cast<double>(from.processor_updates_s);
  out.processors.sum_bytes_s = static_cast<double>(from.processor_sum_bytes_s);
  return out;
}

config::swap_rates_section section_of(const gpu::machine_rates& from) {
  config::swap_rates_section out;
  const auto whole = [](double rate, double limit) {
    return static_cast<int64_t>(std::clamp(rate, 0.0, limit));
  };
  out.flops_s = whole(from.flops_s, 9e15);
  out.read_bytes_s = whole(from.read_bytes_s, 1e15);
  out.write_bytes_s = whole(from.write_bytes_s, 1e15);
  out.duplex = std::clamp(from.duplex, 0.0, 1.0);
  out.updates_s = whole(from.updates_s, 1e15);
  out.processor_flops_s = whole(from.processors.flops_s, 9e15);
  out.processor_updates_s = whole(from.processors.updates_s, 1e15);
  out.processor_sum_bytes_s = whole(from.processors.sum_bytes_s, 1e15);
  return out;
}

bool chooses_activations(const config::job& job) {
  return !job.swap.dir.empty() && job.swap.keep_layers < 0;
}

beside_swap checkpoints_beside(const config::job& job, uint64_t checkpoint_bytes,
                               uint64_t swapped_bytes) {
  const auto& c = job.checkpoint;
  const int64_t saves = c.every > 0 ? (job.train.steps + c.every - 1) / c.every : 1;
  const bool all = keeps_all(c);
  // One more than is kept: the newest is whole before an older one goes.
  const auto held = [&](int64_t made) {
    return static_cast<uint64_t>(all ? made : std::min(made, c.keep + c.keep_best + 1));
  };
  const int64_t at_least_one = std::max<int64_t>(1, saves);
  return {c.dir, held(at_least_one) * (checkpoint_bytes - swapped_bytes) +
                     held(at_least_one - 1) * swapped_bytes};
}

namespace {

/// As the export has it (io::checkpoint::export_type): of what was a folder of the hub by its
/// config.json, else f32.
uint64_t exported_element_bytes(const config::job& job) {
  constexpr uint64_t of_f32 = 4, of_bf16 = 2;
  if (job.model.path.empty()) return of_f32;
  const auto said = io::read_hf_config(job.model.path);
  return said && said->torch_dtype == "bfloat16" ? of_bf16 : of_f32;
}

}  // namespace

void add_export(beside_swap& to, const config::job& job, const model_config& model) {
  if (!job.checkpoint.export_model || job.cluster.launch != config::launch_mode::local) return;
  to.export_dir = job.job.output;
  to.export_bytes = static_cast<uint64_t>(model.parameters()) * exported_element_bytes(job);
}

/// Bytes that are free once an ended process's folder is removed.
uint64_t left_by(std::string_view job, const fs::path& dir) {
  uint64_t out = 0;
  if (const auto left = swap_leftovers(dir))
    for (const auto& l : *left) out += l.job == job ? l.bytes : 0;
  return out;
}

result<swap_room> swap_room_of(const fs::path& dir, uint64_t bytes, const beside_swap& beside,
                               std::string_view job) {
  const auto there = present_of(dir);
  struct statfs facts {};
  if (::statfs(there.c_str(), &facts) != 0)
    return error::system("look at the file system of " + there.string(), errno);
  if (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC)
    return swap_is_memory(dir.string());
  const auto free = static_cast<uint64_t>(facts.f_bavail) * static_cast<uint64_t>(facts.f_bsize);
  const auto here = [&](uint64_t needed, const fs::path& where) {
    return needed > 0 && same_device(there, present_of(where)) ? needed : 0;
  };
  return swap_room{bytes, here(beside.bytes, beside.dir), free + left_by(job, dir), dir,
                   here(beside.export_bytes, beside.export_dir)};
}

/// Bytes that are free once an ended process's files in this one folder are removed.
uint64_t left_in(const fs::path& folder, std::string_view job) {
  uint64_t out = 0;
  if (const auto left = swap_leftovers(folder.parent_path()))
    for (const auto& l : *left) out += l.job == job && l.path == folder ? l.bytes : 0;
  return out;
}

result<drive_share> drive_share_of(const config::job& job, const engine_options& options) {
  // Of several folders none has all links, and no checkpoint is given up (config::check).
  if (!job.swap.consume || !on_one_drive(options.swap_dirs.front(), job.checkpoint.dir))
    return drive_share();
  const auto bytes = swap_request_of(options).file_bytes;
  if (bytes == 0) return drive_share();  // nothing is made there, be it memory
  const auto& dir = options.swap_dirs.front();
  TROUPE_TRY(room, swap_room_of(dir, bytes, {}));
  // What the rank's last process has left in its folder goes as that is opened, and makes room for
  // as many of its own bytes: no other rank need know of it.
  const auto left = left_in(folder_of(dir, job.job.name, options.at.rank), job.job.name);
  const auto replaced = std::min(bytes, left);
  return drive_share{bytes - replaced, room.free_bytes + (left - replaced)};
}

result<std::vector<swap_room>> swap_rooms_of(const std::vector<folder_need>& folders,
                                             const beside_swap& beside, std::string_view job) {
  std::vector<swap_room> out;
  for (const auto& f : folders) {
    const auto there = present_of(f.dir);
    const auto found = std::find_if(out.begin(), out.end(), [&](const swap_room& r) {
      return same_device(there, present_of(r.dir));
    });
    if (found == out.end()) {
      TROUPE_TRY(room, swap_room_of(f.dir, f.bytes, beside, job));
      out.push_back(std::move(room));
      continue;
    }
    found->swap_bytes += f.bytes;
    found->free_bytes += left_by(job, f.dir);
  }
  return out;
}

bool on_one_drive(const fs::path& one, const fs::path& other) {
  return same_device(present_of(one), present_of(other));
}

uint64_t takeable_bytes(const fs::path& dir, const fs::path& checkpoint) {
  uint64_t out = 0;
  std::error_code failed;
  if (!same_device(present_of(dir), checkpoint)) return out;
  for (const auto& f : fs::directory_iterator(checkpoint, failed))
    if (f.is_regular_file(failed) &&
        f.path().filename().string().find(chunk_part) != std::string::npos)
      out += f.file_size(failed);
  return out;
}

status check_room(const swap_room& room) {
  if (room.fits()) return {};
  auto what = fmt::format("{} for what does not fit into memory", bytes_text(room.swap_bytes));
  if (room.checkpoint_bytes > 0)
    what += fmt::format(" and {} for checkpoints", bytes_text(room.checkpoint_bytes));
  if (room.export_bytes > 0)
    what += fmt::format(" and {} for the model at the end", bytes_text(room.export_bytes));
  return swap_lacks_room(room.dir.string(), bytes_text(room.free_bytes), what);
}

result<std::unique_ptr<swap_folder>> swap_folder::make(const swap_request& request,
                                                       const fs::path& dir) {
  TROUPE_TRY(room, swap_room_of(dir, 0, {}, request.job));
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) return error::system("make the folder " + dir.string(), failed.value());
  const auto path = folder_of(dir, request.job, request.rank);
  TROUPE_CHECK(io::make_owned(path, {io::folder_kind::scratch, request.job, {}}));
  TROUPE_TRY(lock, io::folder_lock::take(path, io::this_process(request.job)));
  TROUPE_CHECK(io::remove_from_scratch(path, files_name));
  std::unique_ptr<swap_folder> out(new swap_folder(path, std::move(lock)));
  fs::create_directory(out->files(), failed);
  if (failed) return error::system("make the folder " + out->files().string(), failed.value());
  auto& opened = out->opened_;
  opened.files = out->files();
  opened.links = out->links_into(request.checkpoints);
  opened.free_bytes = room.free_bytes;
  return out;
}

result<std::unique_ptr<swap_folders>> swap_folders::make(const swap_request& request) {
  std::unique_ptr<swap_folders> out(new swap_folders());
  for (const auto& dir : request.dirs) {
    TROUPE_TRY(folder, swap_folder::make(request, dir));
    out->all_.push_back(std::move(folder));
  }
  if (out->all_.empty()) return error{errc::bug, "a rank that swaps names no folder"};
  out->consumes_ = request.consume;
  return out;
}

opened_swap swap_folders::opened() const {
  opened_swap out;
  for (const auto& folder : all_) out.places.push_back(folder->opened());
  out.consumes = consumes_;
  return out;
}

status check_swap_free(const config::job& job) {
  for (int rank = 0; rank < job.grid().ranks(); ++rank)
    for (const auto& dir : swap_dirs_of(job, rank))
      if (auto free = io::check_free(folder_of(dir, job.job.name, rank));
          !free && free.error().is(io::folder_in_use))
        return free.error();
  return {};
}

swap_request swap_request_of(const engine_options& o) {
  return {o.swap_dirs,         o.job,         o.at.rank, gpu::plan_stage(o.model, o.shape).on_disk,
          o.checkpoint_folder, o.swap_consume};
}

result<opened_swap> open_swap_alone(const engine_options& options) {
  TROUPE_TRY(made, swap_folders::make(swap_request_of(options)));
  auto opened = made->opened();
  opened.keeper = std::shared_ptr<swap_folders>(std::move(made));
  return opened;
}

swap_folder::~swap_folder() {
  static_cast<void>(io::remove_from_scratch(path_, files_name));
  lock_.reset();
  static_cast<void>(io::remove_owned(path_, io::folder_kind::scratch));
}

result<std::vector<swap_leftover>> swap_leftovers(const fs::path& dir) {
  std::error_code failed;
  fs::directory_iterator it(dir, failed);
  if (failed) return error::system("read the folder " + dir.string(), failed.value());
  std::vector<swap_leftover> out;
  for (; it != fs::directory_iterator(); it.increment(failed)) {
    if (failed) return error::system("read the folder " + dir.string(), failed.value());
    const auto& path = it->path();
    const auto mark = io::read_mark(path);
    const bool named = path.filename().string().find(rank_part) != std::string::npos;
    if (!named || !mark || mark->kind != io::folder_kind::scratch) continue;
    if (!io::check_free(path)) continue;
    swap_leftover l{path, mark->job, 0};
    for (const auto& file : fs::recursive_directory_iterator(path / files_name, failed))
      if (file.is_regular_file(failed) && file.hard_link_count(failed) == 1)
        l.bytes += file.file_size(failed);
    out.push_back(std::move(l));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

status remove_swap_leftover(const fs::path& path) {
  {
    TROUPE_TRY(lock, io::folder_lock::take(path, io::this_process("")));
    TROUPE_CHECK(io::remove_from_scratch(path, files_name));
  }
  return io::remove_owned(path, io::folder_kind::scratch);
}

/// Whether files of it can have names there, too, or where that folder will be made: by devices and
/// a try within its own.
bool swap_folder::links_into(const fs::path& dir) const {
  if (dir.empty()) return false;
  const auto there = present_of(dir);
  // Of one file system that is mounted twice each mount is a world of its own.
  if (!same_device(path_, there) || mount_of(path_) != mount_of(there)) return false;
  const auto name = files() / "link";  // vfat has none, for one
  auto& system = io::local_files();
  const bool can = system.write_small(name, "", io::durable::no) &&
                   system.link(name, files() / "link-of-it").has_value();
  static_cast<void>(io::remove_from_scratch(path_, files_name));
  std::error_code failed;
  fs::create_directory(files(), failed);
  return can && !failed;
}

fs::path swap_folder::files() const {
  return path_ / files_name;
}

}  // namespace troupe::train
