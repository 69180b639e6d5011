// Operations, clocks and their ends, by virtual time.
#include "actors/sim/clocked_engine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::sim {

namespace {

int64_t in_whole_ns(double s) {
  return std::llround(s * 1e9);
}

}  // namespace

train::engine_facts clocked_engine::facts() const {
  auto out = timed_engine::facts();
  out.sets_clocks = out.saves_energy = true;
  out.clocks_mhz = room_->clocks.ladder();
  return out;
}

void clocked_engine::begin_pass(const train::op_order& order) {
  timed_engine::begin_pass(order);
  counts_ = order.clocks && table_ && *order.clocks == *table_;
  table_ = order.clocks;
  begun_ = 0;
  ask(table_ ? table_->first_mhz() : gpu::controls::highest_clock_mhz);  // CLE-2
}

/// CLE-1
void clocked_engine::occupy(int64_t ns, double watts, train::pipeline_op kind, uint64_t amount,
                            std::function<void()> then) {
  const auto whole_ns = static_cast<double>(std::max<int64_t>(ns, 1));
  const double jitter = static_cast<double>(room_->about(ns)) / whole_ns;
  const double s = whole_ns / 1e9;
  auto rows = has_clock(kind)
                  ? room_->clocks.rows(s, watts)
                  : std::vector<power::clock_row>{{room_->clocks.highest_mhz, s, s * watts}};
  ordered_.push_back({kind, amount, std::move(rows), std::max(jitter, 1.0), std::move(then)});
  begin_next();
}

void clocked_engine::begin_next() {
  if (device_.works() || ordered_.empty() || holds_) return;
  if (busy_until_ns_ > now()) {  // it saves, and does nothing else meanwhile
    holds_ = true;
    return later(busy_until_ns_ - now(), [this] {
      holds_ = false;
      begin_next();
    });
  }
  const auto& op = ordered_.front();
  device_.lies(fault().lies > 0 ? room_->clocks.lowest_mhz : 0);
  if (has_clock(op.kind)) began_clocked();
  began_ns_ = now();
  device_.begin(now_s(), op.rows, slowed(op.jitter, op.kind));
  draw();
}

/// What it draws from now on, and when the operation ends, unless the clock changes.
void clocked_engine::draw() {
  const auto until_ns = std::max(now(), in_whole_ns(device_.ends_s()));
  auto& meter = room_->draw_of(rank());
  meter.stops(now());
  meter.works(now(), until_ns, device_.watts());
  later(until_ns - now(), [this, version = device_.version()] {
    if (version == device_.version()) ended();
  });
}

void clocked_engine::ended() {
  const auto ended_ns = std::max(began_ns_, in_whole_ns(done_s()));
  device_.end(done_s());  // it looks at the rows of the first
  const auto op = std::move(ordered_.front());
  ordered_.pop_front();
  count_joules();
  computed_ns_ += ended_ns - began_ns_;
  if (op.kind != train::pipeline_op::count) note(op.kind, began_ns_, ended_ns, op.amount);
  if (has_clock(op.kind)) ended_clocked();
  begin_next();
  op.then();
}

void clocked_engine::count_joules() {
  const double j = device_.energy_j() - std::exchange(told_j_, device_.energy_j());
  const double busy_s = device_.busy_s() - std::exchange(told_busy_s_, device_.busy_s());
  room_->clocked_j += j - busy_s * room_->draw.idle_w;
}

// -- clocks ---------------------------------------------------------------------------------------

void clocked_engine::began_clocked() {
  if (begun_ >= operations()) return;
  const size_t i = begun_++;
  if (counts_ && device_.least_mhz() < table_->mhz_of(i)) ++late_;
  if (const auto w = table_->began(i)) ask(w->mhz, w->after_s);
}

void clocked_engine::ended_clocked() {
  if (begun_ == 0) return;
  if (begun_ == operations()) return ask(table_->mhz_of(begun_));  // CLE-2
  if (const auto w = table_->ended(begun_ - 1)) ask(w->mhz, w->after_s);
}

/// The newest replaces what was wished for later (CKS-2).
void clocked_engine::ask(int mhz, double after_s) {
  const auto number = ++wishes_;
  if (after_s <= 0) return wish(mhz);
  later(in_whole_ns(after_s), [this, mhz, number] {
    if (number == wishes_) wish(mhz);
  });
}

void clocked_engine::wish(int mhz) {
  if (!failed_ && device_.wish(std::min(mhz, room_->clocks.highest_mhz))) await_setting();
}

void clocked_engine::await_setting() {
  later(room_->clocks.set_ns + fault().late_ns, [this] { set(); });
}

/// CLE-3
void clocked_engine::set() {
  if (fault().refuses > 0) {
    failed_ = true;
    device_.let_go(done_s(), room_->clocks.highest_mhz);
  } else if (device_.set(done_s())) {
    await_setting();
  }
  if (device_.works()) draw();
}

void clocked_engine::put_clocks(train::step_outcome& into) {
  into.late_clocks = std::exchange(late_, 0);
  into.clocks_failed = failed_;
}

}  // namespace troupe::sim
