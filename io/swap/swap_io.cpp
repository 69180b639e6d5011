// Calls to pieces, completions to calls: see swap_io.hpp.
#include "io/swap/swap_io.hpp"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

namespace troupe::io {

namespace {

/// A wait of the thread's; wake() ends it early.
constexpr std::chrono::seconds look_again{1};
/// For calls under way when this is destroyed.
constexpr std::chrono::seconds last_patience{10};

}  // namespace

/// One call.
struct swap_io::call {
  disk_op op = disk_op::read;
  std::vector<range> what;
  std::shared_ptr<void> owner;
  std::function<status(disk&)> names;  ///< empty: something else is asked for
  file_id synced = file_id::none;
  uint64_t line = 0;  ///< SWI-6; 0: in none

  size_t at = 0;        ///< of `what`: what is started next
  uint64_t offset = 0;  ///< within it
  uint64_t under_way = 0;
  status outcome;     ///< of its thread's once `done`
  bool done = false;  ///< guarded by the mutex, as the next two
  bool begun = false;  ///< of `names`: they use what their caller has on its stack
  bool left = false;   ///< its caller waits no more
  std::condition_variable told;

  bool moves() const { return !names && synced == file_id::none; }
  bool all_started() const { return (at == what.size() && moves()) || !outcome; }
};

result<std::unique_ptr<swap_io>> swap_io::make(swap_io_options options) {
  assert(options.piece_bytes > 0 && options.piece_bytes % disk_block == 0);
  assert(options.depth > 0 && options.depth < disk::most_operations);
  std::unique_ptr<swap_io> out(new swap_io(std::move(options)));
  if (!out->options_.open_disk)
    out->options_.open_disk = [](size_t depth) {
      disk_options by_default;
      by_default.depth = depth;
      return io::open_disk(by_default);
    };
  beginning begun;
  std::unique_lock lock(out->mutex_);
  out->thread_ = std::thread([&begun, self = out.get()] { self->work(begun); });
  begun.told.wait(lock, [&] { return begun.over; });
  if (!begun.outcome) {
    lock.unlock();
    return begun.outcome.error();
  }
  lock.unlock();
  return out;
}

swap_io::~swap_io() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    asked_.notify_all();
    if (disk_) disk_->wake();
  }
  thread_.join();
}

result<file_id> swap_io::create(const std::filesystem::path& name, uint64_t bytes) {
  auto made = file_id::none;
  const auto outcome = change([&](disk& d) -> status {
    TROUPE_TRY(file, d.open(name, {open_mode::create, true, bytes, true}));
    made = file;
    return {};
  });
  if (!outcome) return outcome.error();
  return made;
}

status swap_io::change(std::function<status(disk&)> names) {
  auto c = std::make_shared<call>();
  c->names = std::move(names);
  return submit(c);
}

status swap_io::sync(file_id file) {
  auto c = std::make_shared<call>();
  c->op = disk_op::fdatasync;
  c->synced = file;
  return submit(c);
}

status swap_io::read(std::span<const range> what, const std::shared_ptr<void>& owner) {
  return move(disk_op::read, what, owner);
}

status swap_io::write(std::span<const range> what, const std::shared_ptr<void>& owner) {
  return move(disk_op::write, what, owner);
}

swap_io::call_ptr swap_io::moving(disk_op op, std::span<const range> what,
                                  const std::shared_ptr<void>& owner) {
  auto c = std::make_shared<call>();
  c->op = op;
  c->what.assign(what.begin(), what.end());
  c->owner = owner;
  return c;
}

status swap_io::move(disk_op op, std::span<const range> what, const std::shared_ptr<void>& owner) {
  if (what.empty()) return {};
  return submit(moving(op, what, owner));
}

result<swap_io::begun_read> swap_io::begin_read(std::span<const range> what,
                                                const std::shared_ptr<void>& owner,
                                                uint64_t line) {
  assert(line != 0);
  begun_read out;
  out.of_ = moving(disk_op::read, what, owner);
  out.of_->line = line;
  TROUPE_CHECK(ask(out.of_));
  return out;
}

status swap_io::finish(begun_read read) {
  assert(read);
  return await(read.of_);
}

status swap_io::submit(const call_ptr& c) {
  TROUPE_CHECK(ask(c));
  return await(c);
}

status swap_io::ask(const call_ptr& c) {
  std::lock_guard lock(mutex_);
  if (ending_) return error{errc::cancelled, "the swap folder is closing"};
  queue_.push_back(c);
  asked_.notify_all();
  disk_->wake();
  return {};
}

status swap_io::await(const call_ptr& c) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return c->done; };
  if (!c->told.wait_for(lock, options_.patience, over) && c->begun) c->told.wait(lock, over);
  c->left = !c->done;
  if (c->left)
    return error{errc::timeout,
                 fmt::format("the swap folder's disk did not answer within {} s",
                             options_.patience.count() / 1000),
                 "the disk is stuck: see dmesg"};
  return c->outcome;
}

swap_io_facts swap_io::facts() const {
  std::lock_guard lock(mutex_);
  return facts_;
}

void swap_io::tell_under_way() {
  std::lock_guard lock(mutex_);
  facts_.under_way = disk_->under_way();
}

// -- the thread -----------------------------------------------------------------------------------

void swap_io::work(beginning& begun) {
  {
    auto made = options_.open_disk(options_.depth);
    std::lock_guard lock(mutex_);
    if (made)
      disk_ = std::move(*made);
    else
      begun.outcome = made.error();
    begun.over = true;
    begun.told.notify_all();
    if (!disk_) return;
  }
  while (await_calls()) {
    start_pieces();
    tell_under_way();
    for (auto& c : disk_->wait(1, look_again)) answer(std::move(c));
    tell_under_way();
  }
  const auto until = disk_->now() + last_patience;
  while (disk_->under_way() > 0 && disk_->now() < until)
    for (auto& c : disk_->wait(1, until - disk_->now())) answer(std::move(c));
  std::unique_ptr<disk> last;
  std::lock_guard lock(mutex_);
  for (const auto& c : queue_) give_up(*c);
  for (const auto& [id, c] : calls_) give_up(*c);
  last = std::move(disk_);
}

void swap_io::give_up(call& c) {
  c.outcome = error{errc::cancelled, "the swap folder is closing"};
  c.done = true;
  c.told.notify_all();
}

/// Takes in what is asked for; waits for that where nothing else is to be done. False: it is over.
bool swap_io::await_calls() {
  std::unique_lock lock(mutex_);
  asked_.wait(lock, [&] { return ending_ || !queue_.empty() || !calls_.empty(); });
  if (ending_) return false;
  for (auto& c : queue_) {
    in_turn_.push_back(++last_call_);
    calls_.emplace(last_call_, std::move(c));
  }
  queue_.clear();
  return true;
}

/// Of each call a piece in turn, as many as the disk takes (SWI-4).
void swap_io::start_pieces() {
  if (!takes_change()) return;
  change_turns();
  size_t passed = 0;  // in a row, whose turn it is not
  while (passed < in_turn_.size() && disk_->under_way() < options_.depth) {
    const auto id = in_turn_.front();
    in_turn_.pop_front();
    const auto c = calls_.at(id);
    if (!has_turn(*c, id)) {
      in_turn_.push_back(id);
      ++passed;
      continue;
    }
    passed = 0;
    if (c->names)
      change_names(*c);
    else if (c->synced != file_id::none)
      start_sync(*c, id);
    else if (!c->all_started())
      start_piece(*c, id);
    if (!c->all_started())
      in_turn_.push_back(id);
    else
      finish_if_over(id);
  }
}

/// SWI-5. False: it has to wait until the disk has nothing.
bool swap_io::takes_change() {
  if (mixes_ == wanted_mixes_) return true;
  if (pieces_ > 0) return false;
  mixes_ = wanted_mixes_;
  turn_until_ = last_call_;
  return true;
}

void swap_io::set_mixes(bool mixes) {
  wanted_mixes_ = mixes;
}

/// SWI-5: where the turn's calls have moved, and some of the other kind wait.
void swap_io::change_turns() {
  if (mixes_ || pieces_ > 0 || any_waits(turn_, turn_until_)) return;
  const auto other = turn_ == disk_op::read ? disk_op::write : disk_op::read;
  if (any_waits(other, last_call_)) turn_ = other;
  turn_until_ = last_call_;
}

/// Whether there are pieces of the kind to be started, of calls up to that one.
bool swap_io::any_waits(disk_op op, uint64_t until) const {
  return std::any_of(in_turn_.begin(), in_turn_.end(), [&](uint64_t id) {
    const auto& c = *calls_.at(id);
    return id <= until && c.moves() && c.op == op;
  });
}

/// SWI-6. What has no piece left to be started is in nobody's way.
bool swap_io::is_behind_another(const call& c, uint64_t id) const {
  return c.line != 0 && std::any_of(in_turn_.begin(), in_turn_.end(), [&](uint64_t other) {
           return other < id && calls_.at(other)->line == c.line;
         });
}

bool swap_io::has_turn(const call& c, uint64_t id) const {
  if (is_behind_another(c, id)) return false;
  if (mixes_ || !c.moves()) return true;
  const auto other = turn_ == disk_op::read ? disk_op::write : disk_op::read;
  return c.op == turn_ && (id <= turn_until_ || !any_waits(other, last_call_));
}

/// Unless nobody waits for it any more.
void swap_io::change_names(call& c) {
  const auto names = std::exchange(c.names, {});
  {
    std::lock_guard lock(mutex_);
    if (c.left) return;
    c.begun = true;
  }
  c.outcome = names(*disk_);
}

void swap_io::start_sync(call& c, uint64_t id) {
  c.outcome = disk_->fdatasync(std::exchange(c.synced, file_id::none), id);
  if (c.outcome) ++c.under_way;
}

void swap_io::start_piece(call& c, uint64_t id) {
  const auto& r = c.what[c.at];
  const auto bytes = std::min<uint64_t>(options_.piece_bytes, r.memory.size() - c.offset);
  auto memory = io_buffer::over(r.memory.subspan(c.offset, bytes), c.owner);
  auto started = c.op == disk_op::read
                     ? disk_->read(r.file, r.offset + c.offset, std::move(memory), id)
                     : disk_->write(r.file, r.offset + c.offset, std::move(memory), id);
  if (!started) {
    c.outcome = started;
    return;
  }
  ++c.under_way;
  ++pieces_;
  c.offset += bytes;
  if (c.offset < r.memory.size()) return;
  ++c.at;
  c.offset = 0;
}

void swap_io::answer(completion done) {
  auto& c = *calls_.at(done.tag);
  --c.under_way;
  if (done.op != disk_op::fdatasync) --pieces_;
  if (!done.outcome && c.outcome) c.outcome = done.outcome;
  if (done.outcome && done.op != disk_op::fdatasync) {
    std::lock_guard lock(mutex_);
    (done.op == disk_op::read ? facts_.read_bytes : facts_.written_bytes) += done.bytes;
  }
  finish_if_over(done.tag);
}

void swap_io::finish_if_over(uint64_t id) {
  const auto c = calls_.at(id);
  if (c->under_way > 0 || !c->all_started()) return;
  std::erase(in_turn_, id);  // a call that failed may have had pieces left
  calls_.erase(id);
  std::lock_guard lock(mutex_);
  auto of_disk = disk_->facts();
  facts_.notes = std::move(of_disk.notes);
  facts_.warnings = std::move(of_disk.warnings);
  c->done = true;
  c->told.notify_all();
}

}  // namespace troupe::io
