// One store, and clocks for those who call it.
#include "actors/sim/storage.hpp"

#include <algorithm>

namespace troupe::sim {

namespace {

/// The node on whose host the files are.
constexpr int server = 0;

/// An operating system writes back by itself what is as old as this.
constexpr int64_t write_back_ns = 30'000'000'000;

/// When the last call of a process, and of all of them, is over.
struct last_calls {
  int64_t ns = 0;
  int64_t& of_all_ns;

  void until(int64_t at_ns) {
    ns = std::max(ns, at_ns);
    of_all_ns = std::max(of_all_ns, at_ns);
  }
};

/// The time of the actor that calls, which its calls take.
class callers_clock final : public io::virtual_clock {
 public:
  callers_clock(world& where, last_calls& calls) : where_(where), calls_(calls) {}
  int64_t now() const override { return where_.own_time_ns(); }
  void move_to(int64_t ns) override {
    where_.block_until(ns);
    calls_.until(ns);
  }

 private:
  world& where_;
  last_calls& calls_;
};

/// Time that passes beside the actors'.
class own_clock final : public io::virtual_clock {
 public:
  own_clock(int64_t begin_ns, last_calls& calls) : now_ns_(begin_ns), calls_(calls) {}
  int64_t now() const override { return now_ns_; }
  void move_to(int64_t ns) override {
    now_ns_ = std::max(now_ns_, ns);
    calls_.until(ns);
  }

 private:
  int64_t now_ns_;
  last_calls& calls_;
};

/// The world's: calls take none of it.
class worlds_clock final : public io::virtual_clock {
 public:
  explicit worlds_clock(const world& where) : where_(where) {}
  int64_t now() const override { return where_.now_ns(); }
  void move_to(int64_t) override {}

 private:
  const world& where_;
};

}  // namespace

/// Its calls are told apart from those of the node's process after it.
class shared_files::process final : public io::storage {
 public:
  process(shared_files& files, uint32_t writer)
      : files_(files),
        writer_(writer),
        calls_{0, files.last_ns_},
        clock_(std::make_shared<callers_clock>(files.where_, calls_)),
        names_(files.store_, options(clock_, files.times_)) {}

  io::file_system& files() override { return names_; }
  result<std::unique_ptr<io::disk>> open_disk(const io::disk_options&) override {
    return std::unique_ptr<io::disk>(
        std::make_unique<io::faulty_disk>(files_.store_, options(clock_, files_.times_)));
  }

  std::unique_ptr<io::disk> beside(int64_t data_ns) {
    auto clock = std::make_shared<own_clock>(files_.where_.now_ns(), calls_);
    return std::make_unique<io::faulty_disk>(files_.store_, options(clock, {0, data_ns}));
  }

  /// It asks for nothing any more that is done.
  void end() { *ended_ = true; }
  uint32_t writer() const { return writer_; }
  /// When the last of its calls is over.
  int64_t last_ns() const { return *ended_ ? 0 : calls_.ns; }

 private:
  io::faulty_options options(std::shared_ptr<io::virtual_clock> clock,
                             const storage_times& times) const {
    io::faulty_options o;
    o.writer = writer_;
    o.ended = ended_;
    o.latency = std::chrono::nanoseconds(times.data_ns);
    o.name_latency = std::chrono::nanoseconds(times.name_ns);
    o.clock = std::move(clock);
    return o;
  }

  shared_files& files_;
  uint32_t writer_;
  last_calls calls_;
  std::shared_ptr<bool> ended_ = std::make_shared<bool>(false);
  std::shared_ptr<io::virtual_clock> clock_;
  io::faulty_disk names_;
};

namespace {

io::faulty_options without_time(const world& where) {
  io::faulty_options o;
  o.clock = std::make_shared<worlds_clock>(where);
  return o;
}

}  // namespace

shared_files::shared_files(world& where, const storage_times& times)
    : where_(where),
      times_(times),
      store_(io::crash_store::make()),
      timeless_(std::make_unique<io::faulty_disk>(store_, without_time(where))),
      chance_(where.chance().split(4)) {
  store_->be_brief();
}

shared_files::~shared_files() = default;

shared_files::process& shared_files::process_of(int node) {
  const auto at = static_cast<size_t>(node);
  if (at >= running_.size()) running_.resize(at + 1);
  if (!running_[at]) running_[at] = std::make_unique<process>(*this, ++last_writer_);
  return *running_[at];
}

io::storage& shared_files::of(int node) {
  return process_of(node);
}

std::unique_ptr<io::disk> shared_files::beside(int node, int64_t data_ns) {
  return process_of(node).beside(data_ns);
}

io::file_system& shared_files::timeless() {
  return *timeless_;
}

void shared_files::end(int node, bool memory_lost) {
  const auto keeps = [&](io::crash_store::change_kind what) {
    const bool there = node != server && what == io::crash_store::change_kind::names;  // STO-1
    return there || !memory_lost || chance_.chance(0.5);
  };
  const auto at = static_cast<size_t>(node);
  if (at >= running_.size() || !running_[at]) return;
  const bool cut_off = running_[at]->last_ns() > where_.now_ns();
  running_[at]->end();
  if (cut_off || memory_lost) store_->lose(running_[at]->writer(), where_.now_ns(), keeps);
  ended_.push_back(std::move(running_[at]));
  write_back();
}

void shared_files::write_back() {
  if (store_->logged() < settle_at_) return;
  store_->settle(where_.now_ns() - write_back_ns, where_.now_ns());
  settle_at_ = std::max(long_log, 2 * store_->logged());
}

void shared_files::end_process(int node) {
  end(node, false);
}

void shared_files::lose(int node) {
  end(node, true);
}

bool shared_files::quiet() const {
  return last_ns_ <= where_.now_ns() ||
         std::none_of(running_.begin(), running_.end(),
                      [&](const auto& p) { return p && p->last_ns() > where_.now_ns(); });
}

}  // namespace troupe::sim
