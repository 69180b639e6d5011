// Where a rank's swap files are, and how much memory its stage may take: what stands between a
// job's [swap] section and the engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/train/engine.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/folder/lock.hpp"

namespace troupe::train {

/// Workers of the node that has most: all processes of a job are planned alike.
uint64_t workers_of(const config::job& job);

/// Memory that a process of the job takes beside what its ranks' stages hold, bytes: itself, its
/// libraries, the loader's slots, the rings that checkpoints go through, and what operations of a
/// stage with these options take while they run.
uint64_t process_overhead_bytes(const config::job& job, const engine_options& options);

/// What one rank's stage may take of a process that has swap.host_bytes, and of what it has agreed
/// on with its replicas (swap_ranks.hpp: agreed_bytes); 0 where nothing is left. Of a stage on a
/// GPU that is for what goes between GPU and drive (gpu/swap/memory_split.hpp).
uint64_t swap_budget_bytes(const config::job& job, const engine_options& options);

/// Of what a machine has, where a job does not say how much of it: the rest is for others.
inline constexpr uint64_t share_of_memory_percent = 80;

/// Says what swap.host_bytes is where the job swaps and leaves it open: 80 % of `memory_bytes`, in
/// equal shares where all processes are on one machine.
void settle_host_bytes(config::job& job, uint64_t memory_bytes);

/// The folders of a rank's chunks: those of swap.dir, {rank} in them replaced.
std::vector<std::filesystem::path> swap_dirs_of(const config::job& job, int rank);

/// Rates as a job says them, and those that it is to say. None: it says none.
std::optional<gpu::machine_rates> rates_of(const config::swap_rates_section& from);
config::swap_rates_section section_of(const gpu::machine_rates& from);

/// The way to clip that a job asks for.
gpu::clip_way way_of(config::clip_way way);
gpu::weights_choice choice_of(config::weights_choice choice);

/// Whether what layers keep of a forward pass is left open (swap.keep_layers).
bool chooses_activations(const config::job& job);

/// Settles where the chunks of a rank of this job live, in the options' shape, and whether its
/// drive has a second version of them: by the room that it has now, where it is this machine's.
/// Where what layers are to keep is too large, all of them compute it again. Nothing where the job
/// has no swap folder. Errors: those of gpu::plan_residency; then it is what needs least.
status settle_swap(engine_options& options, const config::job& job);

/// Whether each rank keeps all gradients until every rank has its own: of stages, which share a
/// norm and the gradient of a tied table.
bool holds_gradients(const engine_options& options);

/// Whether updates wait for what all ranks know of all gradients.
bool updates_wait(const engine_options& options);

/// How the steps of a rank's stage are, for its plan; without a number of bytes.
gpu::residency_budget steps_of(const engine_options& options);

/// Whether the drives of this machine have room for a second version of what a rank and the job's
/// other ranks here put on them, beside checkpoints: for a rank of several replicas, whose folders
/// are known (swap_dirs). One by itself would not know what others are about to take.
bool has_room_for_versions(const config::job& job, const engine_options& options);

/// The least swap.host_bytes that a job whose largest stage has these options can be trained with.
/// On a GPU: with as much of that as the job has.
uint64_t swap_floor_bytes(const config::job& job, const engine_options& options);

/// The least swap.device_bytes of the same, where it is on a GPU; else 0.
uint64_t device_floor_bytes(const config::job& job, const engine_options& options);

/// A swap folder on memory, or on a drive with too little room.
inline constexpr error_kind<std::string_view> swap_is_memory{
    "swap_is_memory", errc::bad_config, "{} is memory (tmpfs), not a drive",
    "name a folder on a local drive"};
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> swap_lacks_room{
    "swap_lacks_room", errc::bad_config, "{0} has {1} free, and {2} are needed",
    "free space there, name another folder, or raise swap.host_bytes; checkpoint.dir may be on "
    "another drive, and checkpoint.export_model=false leaves out the model at the end"};

/// The folder, or the nearest above it that is there: on the drive that it will be made on.
std::filesystem::path present_of(const std::filesystem::path& dir);

/// What a person should know of the drive that the folder is, or will be made, on: a network file
/// system, one without O_DIRECT or fallocate; a sentence each.
std::vector<std::string> drive_remarks(const std::filesystem::path& dir);

/// What a job writes beside its swap files: checkpoints of so many bytes, all of those together
/// that are there at the same time, and the model that it leaves at its end.
struct beside_swap {
  std::filesystem::path dir = {};
  uint64_t bytes = 0;
  std::filesystem::path export_dir = {};
  uint64_t export_bytes = 0;
};
/// Of the checkpoints that the job's retention keeps and the one that is being saved, as long as
/// there are no more steps than that. Of `swapped_bytes` of each the last one has what lies in the
/// swap folder, by links (ENG-12).
beside_swap checkpoints_beside(const config::job& job, uint64_t checkpoint_bytes,
                               uint64_t swapped_bytes);
/// The model that the job writes at its end into its output, where that is this machine's; the last
/// checkpoint is there until it is whole. In the type of the model that it began with.
void add_export(beside_swap& to, const config::job& job, const model_config& model);

/// What a drive must have room for, and has.
struct swap_room {
  uint64_t swap_bytes = 0;
  uint64_t checkpoint_bytes = 0;  ///< those that go to the same file system
  uint64_t free_bytes = 0;
  std::filesystem::path dir = {};  ///< the first folder there
  uint64_t export_bytes = 0;       ///< the model, where that goes to the same file system
  /// All of it together.
  uint64_t needed_bytes() const { return swap_bytes + checkpoint_bytes + export_bytes; }
  bool fits() const { return free_bytes >= needed_bytes(); }
  /// Whether the files fit only once a checkpoint has become some of them (swap.consume).
  bool must_consume() const { return free_bytes < swap_bytes; }
};
/// Of swap files of `bytes` in the folder, or where it will be made. What an ended process of the
/// job has left there counts as free: its next one removes that first. Errors: swap_is_memory, io.
result<swap_room> swap_room_of(const std::filesystem::path& dir, uint64_t bytes,
                               const beside_swap& beside, std::string_view job = {});

/// What of a job lives in one of its swap folders.
struct folder_need {
  std::filesystem::path dir;
  uint64_t bytes = 0;
};
/// The same of several different ones, one answer for each file system. Errors: as of one.
result<std::vector<swap_room>> swap_rooms_of(const std::vector<folder_need>& folders,
                                             const beside_swap& beside, std::string_view job = {});

/// Whether both are, or will be made, on one file system.
bool on_one_drive(const std::filesystem::path& one, const std::filesystem::path& other);

/// What a rank's files take of the drive that checkpoints are on, and what that has free for all
/// ranks, while none has made any; nothing where they are on another one.
struct drive_share {
  uint64_t file_bytes = 0, free_bytes = 0;
};
/// Of a rank with these options, which are settled; nothing unless swap.consume. Errors: as of
/// swap_room_of.
result<drive_share> drive_share_of(const config::job& job, const engine_options& options);

/// Bytes of a checkpoint that swap files may take over by links: its chunks' shards, on the same
/// file system.
uint64_t takeable_bytes(const std::filesystem::path& dir, const std::filesystem::path& checkpoint);

/// Whether it fits. Errors: swap_lacks_room.
status check_room(const swap_room& room);

/// A rank's folder of swap files on one drive, which is its own as long as this lives, and goes
/// with it. What an earlier process of the same job and rank has left there is removed first.
class swap_folder {
 public:
  /// In `dir`, as the request says. Errors: folder_in_use where that process lives; not_ours where
  /// other things lie there; swap_is_memory; io.
  static result<std::unique_ptr<swap_folder>> make(const swap_request& request,
                                                   const std::filesystem::path& dir);
  swap_folder(const swap_folder&) = delete;
  swap_folder& operator=(const swap_folder&) = delete;
  ~swap_folder();

  const opened_place& opened() const noexcept { return opened_; }

 private:
  swap_folder(std::filesystem::path path, io::folder_lock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::filesystem::path files() const;
  bool links_into(const std::filesystem::path& dir) const;

  std::filesystem::path path_;
  std::optional<io::folder_lock> lock_;
  opened_place opened_;
};

/// Those of all drives that a rank has.
class swap_folders final : public swap_home {
 public:
  /// Errors: as of swap_folder::make, with those that were made before gone again; bug without any.
  static result<std::unique_ptr<swap_folders>> make(const swap_request& request);
  opened_swap opened() const override;

 private:
  swap_folders() = default;

  std::vector<std::unique_ptr<swap_folder>> all_;
  bool consumes_ = false;
};

/// Whether no process has the folders of the job's ranks. Errors: folder_in_use.
status check_swap_free(const config::job& job);

/// What an engine with these options needs of a drive.
swap_request swap_request_of(const engine_options& options);

/// The same, made for an engine that has no swapper beside it, and kept as long as its options.
/// Errors: as of swap_folders::make.
result<opened_swap> open_swap_alone(const engine_options& options);

/// A rank's folder whose process has ended without removing it.
struct swap_leftover {
  std::filesystem::path path;
  std::string job;
  uint64_t bytes = 0;  ///< of those of its files that no checkpoint has
};

/// Those in a folder that swap.dir names, by name. Errors: not_found, io.
result<std::vector<swap_leftover>> swap_leftovers(const std::filesystem::path& dir);

/// Errors: folder_in_use where a process has it after all; as of io::remove_owned.
status remove_swap_leftover(const std::filesystem::path& path);

}  // namespace troupe::train
