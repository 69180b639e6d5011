// What all ways share, and ours.
#include "apps/bench/checkpoint_ways.hpp"

#include <array>
#include <chrono>

#include <fmt/format.h>

#include "gpu/model/state_saver.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/save.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::ckpt_bench {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;

namespace {

/// Ours, as training runs it: the saver of a rank, and the committer's commit.
class ours final : public way {
 public:
  static result<std::unique_ptr<way>> make(const surroundings& around) {
    auto out = std::make_unique<ours>(around);
    TROUPE_TRY(disk, io::open_disk({io::disk_backend::threads, 1, 1, {}}));  // as the committer's
    out->disk_ = std::move(disk);
    gpu::saver_options o;
    o.job = "bench";
    o.epoch = 1;
    o.ring_bytes = around.ring_bytes;
    TROUPE_TRY(saver, gpu::state_saver::make(around.trainer.store(), std::move(o)));
    out->saver_ = std::move(saver);
    return std::unique_ptr<way>(std::move(out));
  }
  using way::way;

  status checkpoint(uint64_t step) override {
    const auto asked = clock::now();
    const auto partial = around_.dir / cp::partial_name(step, 1);
    {
      std::lock_guard lock(mutex_);
      ++open_;
    }
    saver_->save(
        step, partial, around_.trainer.updated(),
        [this, asked, step, partial](const result<cp::shard_facts>& vote) {
          commits_.post([=, this]() -> status {
            if (!vote) return vote.error();
            return commit(asked, step, partial, *vote);
          });
          std::lock_guard lock(mutex_);
          --open_;
          voted_.notify_all();
        });
    return {};
  }
  status drain() override {
    {
      std::unique_lock lock(mutex_);
      voted_.wait(lock, [this] { return open_ == 0; });
    }
    return commits_.wait();
  }

 private:
  status commit(clock::time_point asked, uint64_t step, const fs::path& partial,
                const cp::shard_facts& vote) {
    cp::manifest_head head;
    head.job = "bench";
    head.epoch = 1;
    head.step = step;
    head.slot_bytes = gpu::saver_slot_bytes;
    TROUPE_TRY(folder, cp::commit_save(*disk_, partial, head, {vote}, {{"config.json", "{}\n"}}));
    finished(asked, folder);
    return {};
  }

  std::mutex mutex_;
  std::condition_variable voted_;
  size_t open_ = 0;
  std::unique_ptr<io::disk> disk_;
  worker_pool commits_{1};
  std::unique_ptr<gpu::state_saver> saver_;  ///< ends first: its votes are posted to the above
};

constexpr std::array ways{
    way_kind{.id = "none", .text = "no checkpoint"},
    way_kind{.id = "ours", .text = "ours", .durable = true, .make = ours::make}};

}  // namespace

// -- worker_pool ----------------------------------------------------------------------------------

worker_pool::worker_pool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { live(); });
}

worker_pool::~worker_pool() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  came_.notify_all();
  for (auto& t : threads_) t.join();
}

void worker_pool::post(std::function<status()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  came_.notify_one();
}

status worker_pool::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && busy_ == 0; });
  return std::exchange(outcome_, {});
}

void worker_pool::live() {
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [this] { return over_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    ++busy_;
    lock.unlock();
    auto outcome = work();
    work = nullptr;  // what it held goes before anyone is told
    lock.lock();
    if (outcome_ && !outcome) outcome_ = outcome;
    if (--busy_ == 0 && queue_.empty()) idle_.notify_all();
  }
}

// -- way ------------------------------------------------------------------------------------------

fs::path way::file_of(uint64_t step) const {
  return around_.dir / fmt::format("step-{}.state", step);
}

void way::finished(clock::time_point asked, fs::path what) {
  std::lock_guard lock(mutex_);
  finished_s_.push_back(std::chrono::duration<double>(clock::now() - asked).count());
  std::swap(newest_, what);
  if (what.empty()) return;
  around_.janitor.post([dir = around_.dir, old = what.filename().string()] {
    return io::remove_from_scratch(dir, old);
  });
}

std::span<const way_kind> own_ways() {
  return ways;
}

}  // namespace troupe::apps::ckpt_bench
