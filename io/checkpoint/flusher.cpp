// The flusher's thread: commands in, completions out.
#include "io/checkpoint/flusher.hpp"

#include <chrono>

namespace troupe::io::checkpoint {

namespace {

/// A disk that answers nothing is asked again so often; commands come through by wake().
constexpr std::chrono::milliseconds look_again{200};

}  // namespace

flusher::flusher(std::unique_ptr<disk> d, std::function<void()> progressed)
    : disk_(std::move(d)), progressed_(std::move(progressed)) {
  facts_.disk = disk_->facts();
  thread_ = std::thread([this] { live(); });
}

flusher::~flusher() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  came_.notify_one();
  disk_->wake();
  thread_.join();
}

void flusher::post(command c) {
  {
    std::lock_guard lock(mutex_);
    commands_.push_back(std::move(c));
  }
  came_.notify_one();
  disk_->wake();
}

uint64_t flusher::begin(std::filesystem::path partial, manifest_head head, rank_plan plan,
                        rank_save::voted done) {
  uint64_t save = 0;
  {
    std::lock_guard lock(mutex_);
    save = ++last_;
    ++facts_.open_saves;
  }
  post(
      {save, begin_command{std::move(partial), std::move(head), std::move(plan), std::move(done)}});
  return save;
}

void flusher::filled(uint64_t save, slot lease, uint64_t number) {
  post({save, filled_command{std::move(lease), number}});
}

void flusher::give_up(uint64_t save, error why) {
  post({save, std::move(why)});
}

flusher_facts flusher::facts() const {
  std::lock_guard lock(mutex_);
  return facts_;
}

// -- the thread -----------------------------------------------------------------------------------

void flusher::tell_progress() {
  {
    std::lock_guard lock(mutex_);
    facts_.disk = disk_->facts();
    facts_.saves.clear();
    const auto now = std::chrono::steady_clock::now();
    for (const auto& [number, s] : saves_)
      if (!s.answered)
        facts_.saves.push_back(
            {s.step, s.shard->progress(), std::chrono::duration<double>(now - s.begun).count()});
  }
  if (progressed_) progressed_();
}

std::deque<flusher::command> flusher::next() {
  std::unique_lock lock(mutex_);
  if (disk_->under_way() == 0)  // FL-4
    came_.wait(lock, [this] { return over_ || !commands_.empty(); });
  std::deque<command> out;
  out.swap(commands_);
  return out;
}

void flusher::live() {
  const auto ended = [this] {
    std::lock_guard lock(mutex_);
    return over_;
  };
  while (!ended()) {
    for (auto& c : next()) carry_out(std::move(c));
    forget_answered();
    if (disk_->under_way() > 0) {
      for (auto& answer : disk_->wait(1, look_again))
        for (auto& [number, s] : saves_)
          if (s.shard->take(answer)) break;
      forget_answered();
    }
    tell_progress();
  }
  for (auto& c : next())  // those whose beginning was still to come are answered, too
    if (std::holds_alternative<begin_command>(c.what)) carry_out(std::move(c));
  for (auto& [number, s] : saves_)
    if (!s.answered) s.shard->give_up({errc::cancelled, "the rank ends"});
  saves_.clear();
}

void flusher::carry_out(command c) {
  if (auto* b = std::get_if<begin_command>(&c.what)) return begin_now(c.save, std::move(*b));
  const auto it = saves_.find(c.save);
  if (it == saves_.end() || it->second.answered) return;  // FL-2: the lease goes with the command
  auto& shard = *it->second.shard;
  if (auto* why = std::get_if<error>(&c.what)) return shard.give_up(*why);
  auto& f = std::get<filled_command>(c.what);
  if (auto taken = shard.filled(std::move(f.lease), f.number); !taken) shard.give_up(taken.error());
}

void flusher::begin_now(uint64_t save, begin_command c) {
  const auto bytes = c.plan.stream_bytes;
  auto answer = [this, save, bytes, done = std::move(c.done)](const result<shard_facts>& vote) {
    if (const auto it = saves_.find(save); it != saves_.end()) it->second.answered = true;
    {
      std::lock_guard lock(mutex_);
      --facts_.open_saves;
      ++(vote ? facts_.durable_saves : facts_.failed_saves);
      if (vote) facts_.durable_bytes += bytes;
    }
    done(vote);
  };
  auto shard = rank_save::create(*disk_, c.partial, c.head, std::move(c.plan), answer);
  if (!shard) return answer(shard.error());
  auto& s = saves_[save];
  s.shard = std::move(*shard);
  s.step = c.head.step;
  s.begun = std::chrono::steady_clock::now();
}

void flusher::forget_answered() {
  std::erase_if(saves_, [](const auto& s) { return s.second.answered; });
}

}  // namespace troupe::io::checkpoint
