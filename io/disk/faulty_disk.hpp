// A disk in memory that fails as real ones do, by plan or by random: for tests and the simulation.
// Its files lie in a crash_store, which several disks may share (the ranks of a job and their
// coordinator) and which outlives them (a process that dies), and which tells what a power cut
// leaves.
//
// Invariants
//   FD-1  The same seed, plan, store and calls give the same answers.
//   FD-2  Time is the virtual clock's alone: a wait moves it, or (wait_moves_clock = false)
//         returns. What blocks and takes time moves it always.
//   FD-3  A change bears the disk's writer and the time at which it is done: after the latency of a
//         name, when the answer of a file's operation is due.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "io/disk/crash_store.hpp"
#include "io/disk/disk.hpp"

namespace troupe::io {

/// The time of a simulated disk, which whoever simulates moves on. A simulation with a time of its
/// own derives from it.
struct virtual_clock {
  virtual_clock() = default;
  virtual_clock(const virtual_clock&) = delete;
  virtual_clock& operator=(const virtual_clock&) = delete;
  virtual ~virtual_clock() = default;

  virtual int64_t now() const { return now_ns; }
  /// Never backwards.
  virtual void move_to(int64_t ns) { now_ns = std::max(now_ns.load(), ns); }

  std::atomic<int64_t> now_ns{0};  ///< of the plain one
};

/// Where a planned fault strikes.
enum class fault_site : uint8_t {
  open,
  write,
  read,
  fdatasync,
  make_dir,
  rename,
  link,
  exchange,
  remove,
  list,
  sync_dir,
  write_small,
  cut,
  keep_room,
  clone
};

enum class fault_effect : uint8_t {
  fail,     ///< with `failure`; a failing fdatasync loses the bytes it was to sync, for good
  shorten,  ///< moves `bytes` only (writes and reads)
  invert,   ///< what is read has every bit turned; the file is as it was
  lose,     ///< its completion never comes (write, read, fdatasync)
};

/// The nth operation (from 1) of this disk at that site, or of those on files of that name alone
/// (writes, reads and syncs); `times` of them from there on.
struct planned_fault {
  fault_site site = fault_site::write;
  int nth = 1;
  fault_effect effect = fault_effect::fail;
  int failure = 5;  ///< an errno; 5 = EIO
  size_t bytes = 0;
  int times = 1;
  std::string file = {};  ///< its last component; empty: any
};

struct faulty_options {
  uint64_t seed = 1;
  size_t depth = 8;
  uint32_t writer = 0;  ///< whose changes they are in the store
  /// Whether the process whose disk it is has ended: then whatever it asks for is answered EIO.
  std::shared_ptr<const bool> ended = {};
  // Chances of each operation, 0 to 1.
  double short_move = 0;   ///< writes and reads
  double interrupted = 0;  ///< EINTR; writes and reads
  double write_error = 0;  ///< EIO; the bytes may be on the disk all the same
  double read_error = 0;
  double sync_error = 0;
  double lost = 0;
  bool reorder = false;        ///< completions come in any order, one at a time
  bool refuse_direct = false;  ///< as tmpfs did
  bool clones = false;         ///< files can share blocks, as on XFS and Btrfs
  // Its speed; 0 bytes a second is without limit.
  std::shared_ptr<virtual_clock> clock = {};  ///< its own when empty
  bool wait_moves_clock = true;
  std::chrono::nanoseconds latency{0};  ///< of each operation on a file, write_small's sync too
  /// Of each name made, changed or removed, of sync_dir and of write_small but for its sync: the
  /// clock moves, then it is done.
  std::chrono::nanoseconds name_latency{0};
  double bytes_per_second = 0;
  std::vector<planned_fault> plan = {};
};

class faulty_disk final : public disk {
 public:
  faulty_disk(std::shared_ptr<crash_store> store, faulty_options options);
  ~faulty_disk() override;

  const std::shared_ptr<crash_store>& store() const noexcept { return store_; }
  /// Further faults; nth counts from the disk's beginning.
  void plan(const planned_fault& fault) { options_.plan.push_back(fault); }
  /// Operations at a site so far: what nth counts.
  int count(fault_site site) const {
    const auto found = counts_.find(site);
    return found == counts_.end() ? 0 : found->second;
  }

  void wake() override { woken_ = true; }
  result<bool> make_dir(const path& name) override;
  status rename(const path& from, const path& to) override;
  result<bool> rename_to_free(const path& from, const path& to) override;
  status link(const path& file, const path& name) override;
  status clone(const path& file, const path& name) override;
  result<uint64_t> names_of(const path& file) const override;
  status exchange(const path& one, const path& other) override;
  status remove_folder(const path& name, const claim& ours) override;
  status check_removal(const path& name, const claim& ours) override;
  result<std::vector<dir_entry>> list(const path& folder) override;
  status sync_dir(const path& folder) override;
  result<std::string> read_small(const path& name, size_t most) override;
  status write_small(const path& name, std::string_view content, durable sync) override;
  result<std::shared_ptr<const source_file>> open_source(const path& name, pages behind) override;
  result<std::unique_ptr<log_file>> open_log(const path& name, log_open how) override;
  unsigned reads_at_once() const override { return 1; }  ///< FD-1
  result<file_lock> read_lock(const path& file) override;
  result<file_lock> exclude_readers(const path& file) override;
  result<folder_identity> identity(const path& folder) override;
  result<path> canonical(const path& name) override;
  /// Does nothing: a store has no links, and nobody who would follow one.
  status point_link(const path& link, const std::string& target,
                    const std::function<bool(const std::string&)>& is_ours) override;
  nanoseconds now() const override;

 protected:
  result<opened> raw_open(const path& name, const open_options& options) override;
  void raw_close(int file) override;
  int raw_look(int file, file_facts& facts) const override;
  void raw_submit(const raw_request& request) override;
  bool raw_reap(bool block, nanoseconds until, std::vector<raw_answer>& answers) override;

 private:
  class stored_log;
  struct due {
    int64_t at_ns;
    raw_answer answer;
  };
  status remove_name(const path& name, bool folder);
  result<std::vector<std::string>> to_remove(const path& name, const claim& ours);
  result<crash_store::node_id> open_to_read(const path& name) const;
  const planned_fault* planned(fault_site site, const std::string& file = {});
  bool ended() const { return options_.ended && *options_.ended; }
  /// 0, or the errno that was planned for this operation.
  int refused(fault_site site);
  bool by_chance(double chance);
  int64_t carry_out(const raw_request& request, stamp by, bool& lost);
  int64_t move(const raw_request& request, stamp by, const planned_fault* fault);
  /// The clock has moved so far: what is done now bears this stamp.
  stamp after(nanoseconds takes);
  void move_clock(nanoseconds until);

  std::shared_ptr<crash_store> store_;
  faulty_options options_;
  std::mt19937_64 lot_;
  std::map<fault_site, int> counts_;
  std::map<std::pair<fault_site, std::string>, int> counts_of_files_;
  struct handle {
    crash_store::node_id node = 0;
    file_lock held;
    std::string name = {};
  };
  std::map<int, handle> handles_;
  int last_handle_ = 0;
  int64_t busy_until_ns_ = 0;
  std::vector<due> due_;
  std::atomic<bool> woken_{false};
};

}  // namespace troupe::io
