// Faults between an engine's operations.
#include "actors/train/drilled_engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>

#include <spdlog/spdlog.h>

#include "gpu/back_end.hpp"
#include "io/config/drills.hpp"
#include "io/disk/slow_disk.hpp"

namespace troupe::train {

namespace {

constexpr size_t slow_disk_depth = 16;

}  // namespace

/// Waits of the compute stream, which whoever ends the engine cuts short (DRE-3).
struct drilled_engine::waits {
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;

  void wait(double seconds) {
    std::unique_lock lock(mutex);
    ended.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return over; });
  }
  void end() {
    {
      std::lock_guard lock(mutex);
      over = true;
    }
    ended.notify_all();
  }
};

drill_edges process_edges(std::function<void()> fall_silent) {
  return {[] { kill(getpid(), SIGKILL); }, std::move(fall_silent),
          [] {
            for (;;) pause();  // until a signal, and again
          }};
}

result<std::unique_ptr<rank_engine>> drilled_engine::make(const engine_options& options,
                                                          drill_edges edges) {
  TROUPE_TRY(device, gpu::open_device(options.device, options.threads));
  std::unique_ptr<drilled_engine> made(new drilled_engine(options, std::move(edges)));
  TROUPE_CHECK(made->open(std::move(device)));
  TROUPE_TRY(pinned, made->device().pin(&made->turned_, sizeof made->turned_));
  made->turned_pinned_ = std::move(pinned);
  return std::unique_ptr<rank_engine>(std::move(made));
}

drilled_engine::drilled_engine(const engine_options& options, drill_edges edges)
    : rank_engine(options),
      policy_(options.drills),
      edges_(std::move(edges)),
      waits_(std::make_shared<waits>()) {}

/// Its own members go first: what is enqueued uses those that it shares, and `turned_`, behind
/// which the compute stream must have come.
drilled_engine::~drilled_engine() {
  abort();
  if (has_turned_) compute().record()->wait_on_host();
}

void drilled_engine::abort() noexcept {
  waits_->end();
  rank_engine::abort();
}

void drilled_engine::run(const op_order& order, completion done) {
  const bool trains = order.kind == pipeline_op::forward || order.kind == pipeline_op::recheck;
  if (trains && order.step != step_) begin_step(order.step);
  rank_engine::run(order, std::move(done));
}

/// DRE-1.
void drilled_engine::begin_step(uint64_t step) {
  step_ = step;
  slow_factor_ = 1;
  for (const auto i : policy_.begin_step(step)) {
    const auto& drill = policy_.all()[i];
    if (is_told(drill, step))
      spdlog::warn("a drill acts in step {}: {}", step, config::drill_text(drill));
    switch (drill.what) {
      case config::drill_kind::slow:
        slow_factor_ = std::max(slow_factor_, drill.factor);
        break;
      case config::drill_kind::hang:
        hangs_ = true;
        break;
      case config::drill_kind::wrong_bit:
        turns_ = true;
        break;
      case config::drill_kind::wrong_product:
        spoils_ = true;
        break;
      case config::drill_kind::fail:
        edges_.end_process();
        break;
      case config::drill_kind::disk_slow:
        next_save_factor_ = std::max(next_save_factor_, drill.factor);
        break;
      case config::drill_kind::drop:
        edges_.fall_silent();
        break;
    }
  }
}

/// Processor time, since an operation may wait for others on its stream: that is not its own work.
void drilled_engine::enqueue(gpu::stream& s, pipeline_op kind, const std::function<void()>& work) {
  if (std::exchange(hangs_, false))
    s.host_task([hang = edges_.hang]() -> status {
      hang();
      return {};
    });
  if (slow_factor_ <= 1 || facts_of(kind).stream != op_stream::compute) return work();
  auto took_s = std::make_shared<double>(0);
  s.measure(
      work, [took_s](double seconds) { *took_s = seconds; }, gpu::time_kind::thread);
  s.host_task([took_s, more = slow_factor_ - 1, waits = waits_]() -> status {
    waits->wait(*took_s * more);
    return {};
  });
}

void drilled_engine::digest_weights() {
  if (std::exchange(turns_, false)) {
    model()->store().fetch_weights(compute(), 0);
    turn_a_bit(compute(), model()->store().weight(0));
  }
  rank_engine::digest_weights();
}

layer_recheck::spoiler drilled_engine::recheck_spoiler() {
  if (!std::exchange(spoils_, false)) return {};
  return [this](gpu::stream& s, void* output) { turn_a_bit(s, output); };
}

/// By copies in the stream's order: the device may be one whose memory the host cannot reach.
void drilled_engine::turn_a_bit(gpu::stream& s, void* of) {
  has_turned_ = true;
  s.copy(&turned_, of, sizeof turned_);
  s.host_task([this]() -> status {
    turned_ ^= 1;
    return {};
  });
  s.copy(of, &turned_, sizeof turned_);
}

gpu::saver_options drilled_engine::saver_options() {
  auto out = rank_engine::saver_options();
  std::shared_ptr<const std::atomic<double>> of(slow_saves_, &slow_saves_->factor);
  out.open_disk = [factor = std::move(of)](std::shared_ptr<io::slots> ring) {
    io::disk_options how;
    how.depth = slow_disk_depth;
    how.ring = std::move(ring);
    io::ignore_size_signal();
    return result<std::unique_ptr<io::disk>>(std::make_unique<io::slow_disk>(how, factor));
  };
  return out;
}

/// The disk is as it was once the save that has it slow is over.
gpu::state_saver::completion drilled_engine::slowed(gpu::state_saver::completion done) {
  const auto factor = std::exchange(next_save_factor_, 1);
  if (factor <= 1) return done;
  slow_saves_->factor = factor;
  ++slow_saves_->open;
  return [done = std::move(done), saves = slow_saves_](const auto& vote) {
    if (--saves->open == 0) saves->factor = 1;
    done(vote);
  };
}

void drilled_engine::save(uint64_t step, const std::filesystem::path& partial, bool last,
                          gpu::state_saver::completion done) {
  rank_engine::save(step, partial, last, slowed(std::move(done)));
}

void drilled_engine::copy(uint64_t step, const std::filesystem::path& partial,
                          gpu::state_saver::completion done) {
  // It may save by save(): what is slowed already is not slowed again.
  rank_engine::copy(step, partial, partial.empty() ? std::move(done) : slowed(std::move(done)));
}

}  // namespace troupe::train
