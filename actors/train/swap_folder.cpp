// Sums, and a folder's life.
#include "actors/train/swap_folder.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "actors/train/batch_memory.hpp"
#include "actors/train/inputs.hpp"
#include "gpu/swap/residency_plan.hpp"
#include "io/base/text.hpp"
#include "io/folder/owned.hpp"

namespace troupe::train {

namespace {

namespace fs = std::filesystem;

/// Of a process without ranks: its pages, those of libraries it has touched, stacks, messages.
constexpr uint64_t program_bytes = uint64_t{96} << 20;
/// Of what a machine has, where nothing is said: the rest is for others.
constexpr uint64_t share_percent = 80;
constexpr const char* files_name = "files";

/// Of the node that has most.
uint64_t workers_of(const config::job& job) {
  int64_t most = 1;
  for (const auto& n : job.cluster.node) most = std::max(most, n.workers);
  return static_cast<uint64_t>(most);
}

}  // namespace

uint64_t process_overhead_bytes(const config::job& job) {
  const auto batches = batch_memory::slot_bytes_of(job.train.batch, job.train.seq_len) *
                       static_cast<uint64_t>(train_slots + validation_slots);
  return program_bytes + batches +
         workers_of(job) * static_cast<uint64_t>(job.checkpoint.ring_bytes);
}

uint64_t swap_budget_bytes(const config::job& job) {
  const auto all = static_cast<uint64_t>(job.swap.host_bytes);
  const auto overhead = process_overhead_bytes(job);
  return all <= overhead ? 0 : (all - overhead) / workers_of(job);
}

void settle_host_bytes(config::job& job, uint64_t memory_bytes) {
  if (!job.swap.dir.empty() && job.swap.host_bytes == 0)
    job.swap.host_bytes = static_cast<int64_t>(memory_bytes / 100 * share_percent);
}

status settle_swap(engine_options& options, const config::job& job) {
  if (job.swap.dir.empty()) return {};
  options.swap_dir = job.swap.dir;
  options.swap_verify = job.swap.verify;
  gpu::residency_budget budget;
  budget.bytes = swap_budget_bytes(job);
  budget.clips = options.optimizer.clip_norm > 0;
  budget.micro_batches = options.rows() / options.shape.micro_batch;
  auto where = gpu::plan_residency(options.model, options.shape, budget);
  options.shape.where =
      where ? std::move(*where) : gpu::least_residency(options.model, options.shape, budget);
  if (!where) return where.error();
  return {};
}

status check_swap_room(const fs::path& dir, uint64_t bytes) {
  std::error_code failed;
  auto there = fs::absolute(dir);
  while (!fs::exists(there, failed) && there.has_relative_path()) there = there.parent_path();
  struct statfs facts {};
  if (::statfs(there.c_str(), &facts) != 0)
    return error::system("look at the file system of " + there.string(), errno);
  if (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC)
    return swap_is_memory(dir.string());
  const auto free = static_cast<uint64_t>(facts.f_bavail) * static_cast<uint64_t>(facts.f_bsize);
  if (free < bytes) return swap_lacks_room(dir.string(), bytes_text(free), bytes_text(bytes));
  return {};
}

result<swap_folder> swap_folder::make(const fs::path& dir, const std::string& job, int rank) {
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) return error::system("make the folder " + dir.string(), failed.value());
  const auto path = dir / fmt::format("{}-rank-{:05}", job, rank);
  TROUPE_CHECK(io::make_owned(path, {io::folder_kind::scratch, job, {}}));
  TROUPE_TRY(lock, io::folder_lock::take(path, io::this_process(job)));
  TROUPE_CHECK(io::remove_from_scratch(path, files_name));
  swap_folder out(path, std::move(lock));
  fs::create_directory(out.files(), failed);
  if (failed) return error::system("make the folder " + out.files().string(), failed.value());
  return out;
}

swap_folder::~swap_folder() {
  if (!lock_) return;
  static_cast<void>(io::remove_from_scratch(path_, files_name));
  lock_.reset();
  static_cast<void>(io::remove_owned(path_, io::folder_kind::scratch));
}

fs::path swap_folder::files() const {
  return path_ / files_name;
}

}  // namespace troupe::train
