// Gradients to the drive and back, around the swapper: see the header.
#include "apps/bench/swap_phased.hpp"

#include <filesystem>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "gpu/back_end.hpp"
#include "gpu/model/init.hpp"
#include "gpu/model/stage_model.hpp"
#include "gpu/swap/swapper.hpp"
#include "io/swap/swap_io.hpp"

namespace troupe::apps::swap_bench {

namespace {

using gpu::part;

class phased_trainer final : public trainer {
 public:
  explicit phased_trainer(train::engine_options options) : trainer(std::move(options)) {}

  status open() {
    TROUPE_TRY(device, gpu::open_device(options_.device, options_.threads));
    device_ = std::move(device);
    TROUPE_TRY(model, gpu::stage_model::make(*device_, options_.model, options_.shape));
    model_ = std::move(model);
    gpu::swap_options how;
    for (const auto& place : options_.swap.places) how.places.push_back({place.files, false});
    how.verify = options_.swap_verify;
    how.failed = [this](const status& s) { note(s); };
    TROUPE_TRY(swap, gpu::swapper::make(store(), options_.shape.where, std::move(how)));
    swap_ = std::move(swap);
    store().set_mover(swap_.get());
    TROUPE_CHECK(gpu::initialize(store(), options_.model, options_.seed));
    TROUPE_TRY(rule, gpu::optimizer::make(store(), options_.optimizer));
    rule_ = std::move(rule);
    TROUPE_CHECK(make_files(options_.swap.places.front().files / "gradients"));
    for (auto [into, name] : {std::pair(&compute_, "compute"), std::pair(&out_, "gradients-out"),
                              std::pair(&in_, "gradients-in")}) {
      TROUPE_TRY(made, device_->make_stream({name, into == &compute_ ? options_.threads : 1}));
      *into = std::move(made);
    }
    return make_batch();
  }

  moved_bytes moved() const override {
    const auto state = swap_->facts(), gradients = io_->facts();
    return {state.read_bytes + gradients.read_bytes, state.written_bytes + gradients.written_bytes};
  }
  std::string cached() const override { return why_cached(swap_->facts().notes); }

 protected:
  gpu::parameter_store& store() override { return model_->store(); }

  status step() override {
    ++steps_;
    const gpu::stage_model::micro_batch batch{0, tokens_.data(), targets_.data()};
    const auto scale = static_cast<float>(1.0 / static_cast<double>(options_.shape.tokens()));
    model_->reset_loss(*compute_);
    rule_->begin(*compute_);
    model_->forward(*compute_, {&batch, 1}, scale);
    model_->backward(*compute_, {&batch, 1}, [this](int chunk) { keep_gradient(chunk); });
    rule_->total_norm(*compute_);
    rule_->clip(*compute_);
    in_->wait(compute_->record());
    for (int c = 0; c < store().chunk_count(); ++c) update(c);
    double loss_sum = 0;
    compute_->copy(&loss_sum, model_->loss_sum(), sizeof loss_sum);
    TROUPE_CHECK(compute_->synchronize());
    loss_ = loss_sum / static_cast<double>(options_.shape.tokens());
    return failure();
  }

  status settle() override {
    TROUPE_CHECK(trainer::settle());
    return failure();
  }

 private:
  /// Of a chunk on disk: whole blocks, which its frame has room for.
  struct gradient {
    io::file_id file = io::file_id::none;
    std::span<std::byte> memory;
  };

  status make_files(const std::filesystem::path& folder) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) return error::system("make " + folder.string(), failed.value());
    TROUPE_TRY(made, io::swap_io::make({}));
    io_ = std::move(made);
    for (int c = 0; c < store().chunk_count(); ++c) {
      auto& g = gradients_.emplace_back();
      if (!store().state_on_disk(c)) continue;
      const auto bytes = gpu::frame_size(store().bytes(c, part::grad));
      g.memory = {reinterpret_cast<std::byte*>(store().grad(c)), bytes};
      TROUPE_TRY(file, io_->create(folder / fmt::format("gradient-{:04}", c), bytes));
      g.file = file;
    }
    return {};
  }

  status make_batch() {
    const auto count = static_cast<size_t>(options_.shape.tokens());
    for (size_t i = 0; i < 2 * count; ++i)
      (i < count ? tokens_ : targets_).push_back(token_at(i, options_.model.vocab));
    return {};
  }

  /// PHW-2.
  void keep_gradient(int chunk) {
    rule_->note_norm(*compute_, chunk);
    if (!store().state_on_disk(chunk)) return;
    out_->wait(compute_->record());
    out_->host_task([this, chunk] { return move(chunk, &io::swap_io::write); });
    swap_->drop_gradient(*out_, chunk);
  }

  /// The optimizer's phase for one chunk.
  void update(int chunk) {
    if (!store().state_on_disk(chunk)) return rule_->step(*compute_, chunk, rate, steps_);
    store().fetch_gradient(*in_, chunk);
    in_->host_task([this, chunk] { return move(chunk, &io::swap_io::read); });
    swap_->update(*in_, *rule_, chunk, rate, steps_);
  }

  /// On a stream's thread.
  status move(int chunk, status (io::swap_io::*how)(std::span<const io::swap_io::range>,
                                                    const std::shared_ptr<void>&)) {
    const auto& g = gradients_[static_cast<size_t>(chunk)];
    const io::swap_io::range all{g.file, 0, g.memory};
    auto done = (io_.get()->*how)({&all, 1}, store().memory_of(chunk, part::grad));
    note(done);
    return done;
  }

  void note(const status& s) {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_ = s;
  }
  status failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  // Streams end before what their operations use; members are destroyed in reverse order.
  mutable std::mutex mutex_;
  status failure_;
  std::vector<int32_t> tokens_, targets_;
  std::shared_ptr<gpu::device> device_;
  std::unique_ptr<gpu::stage_model> model_;
  std::unique_ptr<gpu::optimizer> rule_;
  std::unique_ptr<io::swap_io> io_;
  std::vector<gradient> gradients_;
  std::unique_ptr<gpu::swapper> swap_;
  std::unique_ptr<gpu::stream> compute_, out_, in_;
};

}  // namespace

result<std::unique_ptr<trainer>> make_phased(train::engine_options options) {
  auto out = std::make_unique<phased_trainer>(std::move(options));
  TROUPE_CHECK(out->open());
  return std::unique_ptr<trainer>(std::move(out));
}

}  // namespace troupe::apps::swap_bench
