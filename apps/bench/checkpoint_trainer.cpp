// State whose every word is known from step and place.
#include "apps/bench/checkpoint_trainer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "gpu/model/stage_shape.hpp"

namespace troupe::apps::ckpt_bench {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::array saved{gpu::part::master, gpu::part::m, gpu::part::v};
constexpr double bytes_per_parameter = 12;
/// A pause looks so often whether it shall end.
constexpr std::chrono::milliseconds look_again{50};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now().time_since_epoch())
      .count();
}

/// A word that no disk can squeeze (the finaliser of MurmurHash3).
constexpr uint32_t mixed(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

/// What the step adds to every word.
constexpr uint32_t stamp(uint64_t step) {
  return mixed(static_cast<uint32_t>(step) * 0x9e3779b9u + 1);
}

constexpr uint32_t place_of(int chunk, size_t which) {
  return mixed(static_cast<uint32_t>(chunk) * 3 + static_cast<uint32_t>(which) + 1);
}

/// Calls work(first word, elements, place) for every tensor of every saved part of a chunk.
template <class Work>
void each_tensor(gpu::parameter_store& store, int chunk, Work&& work) {
  for (size_t p = 0; p < saved.size(); ++p) {
    auto* words = static_cast<uint32_t*>(store.data(chunk, saved[p]));
    for (const auto& t : store.info(chunk).tensors)  // padding stays zero (PS-3)
      work(words + t.offset, static_cast<size_t>(t.count),
           place_of(chunk, p) + static_cast<uint32_t>(t.offset));
  }
}

}  // namespace

model_config state_shape(uint64_t bytes) {
  const double parameters = static_cast<double>(bytes) / bytes_per_parameter;
  auto m = model_config::of(model_family::llama);
  m.max_positions = 2048;
  for (int64_t hidden : {1024, 512, 256, 128, 64}) {
    m.hidden = hidden;
    m.head_width = 32;
    m.heads = hidden / m.head_width;
    m.kv_heads = m.heads / 2;
    m.ffn = hidden * 11 / 4;
    m.vocab = 16 * hidden;
    m.layers = 1;
    const auto ends = static_cast<double>(2 * m.vocab * hidden);
    const auto layer = static_cast<double>(m.parameters()) - ends;
    m.layers = std::max<int64_t>(1, static_cast<int64_t>((parameters - ends) / layer));
    if (m.layers >= 4) break;
  }
  const auto left = static_cast<int64_t>(parameters) - m.parameters();
  m.vocab += std::max<int64_t>(0, left / (2 * m.hidden));
  return m;
}

result<std::unique_ptr<synthetic_trainer>> synthetic_trainer::make(const model_config& model,
                                                                   const std::atomic<bool>& stop) {
  std::unique_ptr<synthetic_trainer> t(new synthetic_trainer(stop));
  t->device_ = gpu::make_host_device(1);
  auto chunks = gpu::stage_chunks(model, gpu::whole_model(model, 1, 1, gpu::dtype::f32));
  TROUPE_TRY(store, gpu::parameter_store::make(*t->device_, std::move(chunks), {}));
  t->store_ = std::move(store);
  TROUPE_TRY(compute, t->device_->make_stream({"compute", 1}));
  t->compute_ = std::move(compute);
  for (int c = 0; c < t->store_->chunk_count(); ++c)
    each_tensor(*t->store_, c, [&](uint32_t* words, size_t count, uint32_t place) {
      for (size_t i = 0; i < count; ++i)
        words[i] = mixed(place + static_cast<uint32_t>(i)) ^ stamp(0);
      t->state_bytes_ += count * sizeof(uint32_t);
    });
  return t;
}

std::vector<std::span<const std::byte>> synthetic_trainer::regions() const {
  std::vector<std::span<const std::byte>> out;
  for (int c = 0; c < store_->chunk_count(); ++c)
    for (auto which : saved)
      out.emplace_back(static_cast<const std::byte*>(store_->data(c, which)),
                       static_cast<size_t>(store_->info(c).count) * sizeof(float));
  return out;
}

status synthetic_trainer::forward_backward() {
  compute_->host_task([this]() -> status {
    const auto until = clock::now() + std::chrono::duration_cast<clock::duration>(
                                          std::chrono::duration<double>(pause_s_));
    while (!stop_ && clock::now() < until)
      std::this_thread::sleep_until(std::min(until, clock::now() + look_again));
    return {};
  });
  TROUPE_CHECK(compute_->synchronize());
  if (stop_) return error{errc::cancelled, "interrupted"};
  return {};
}

void synthetic_trainer::enqueue_chunk(int chunk, uint32_t change) {
  compute_->host_task([this]() -> status {
    mark_ns_ = now_ns();
    return {};
  });
  store_->await_readers(*compute_, chunk);
  compute_->host_task([this, chunk, change]() -> status {
    gate_ns_ += now_ns() - mark_ns_;
    each_tensor(*store_, chunk, [change](uint32_t* words, size_t count, uint32_t) {
      for (size_t i = 0; i < count; ++i) words[i] ^= change;
    });
    return {};
  });
  store_->weights_changed(chunk);
}

result<double> synthetic_trainer::update() {
  const uint32_t change = stamp(step_) ^ stamp(step_ + 1);
  ++step_;
  gate_ns_ = 0;
  for (int c = 0; c < store_->chunk_count(); ++c) enqueue_chunk(c, change);
  updated_ = compute_->record();
  TROUPE_CHECK(compute_->synchronize());
  return static_cast<double>(gate_ns_) / 1e9;
}

result<double> synthetic_trainer::time_update() {
  const auto began = clock::now();
  TROUPE_CHECK(update());
  return std::chrono::duration<double>(clock::now() - began).count();
}

uint64_t synthetic_trainer::restored_to(uint64_t step) {
  step_ = step;
  const auto mark = stamp(step);
  uint64_t wrong = 0;
  for (int c = 0; c < store_->chunk_count(); ++c)
    each_tensor(*store_, c, [&](const uint32_t* words, size_t count, uint32_t place) {
      for (size_t i = 0; i < count; ++i)
        if (words[i] != (mixed(place + static_cast<uint32_t>(i)) ^ mark)) wrong += 4;
    });
  return wrong;
}

}  // namespace troupe::apps::ckpt_bench
