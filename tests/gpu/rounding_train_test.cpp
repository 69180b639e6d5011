// Training with bf16 weights that are rounded by chance: the same bits twice, in every pipeline
// layout and after a restore; near float32's losses; and nothing of it unless it is asked for.
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "gpu/model/init.hpp"
#include "tests/gpu/local_trainer.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/saving.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::testing;

namespace {

struct run {
  std::unique_ptr<device> owner = make_host_device(1);
  std::unique_ptr<local_trainer> trainer;
  std::vector<double> losses;

  run(dtype compute, std::optional<uint64_t> seed, int64_t stages = 1) {
    local_options options;
    options.stages = stages;
    options.seq = 12;
    options.compute = compute;
    options.rounding_seed = seed;
    auto made = local_trainer::make(*owner, tiny_gpt2(), options);
    REQUIRE(made);
    trainer = std::move(*made);
    for (auto* store : stores()) REQUIRE(initialize(*store, tiny_gpt2(), 1));
  }
  std::vector<parameter_store*> stores() {
    std::vector<parameter_store*> out;
    for (size_t i = 0; i < trainer->stage_count(); ++i) out.push_back(&trainer->stage(i).store());
    return out;
  }
  void train(int steps) {
    const auto tokens = some_tokens(13, tiny_gpt2().vocab);
    for (int i = 0; i < steps; ++i) {
      auto step = trainer->step(tokens.data(), tokens.data() + 1, 1e-2f);
      REQUIRE(step);
      losses.push_back(step->loss);
    }
  }
  /// The bf16 weights of all chunks of one stage.
  std::vector<uint16_t> weights(size_t stage = 0) {
    auto& store = trainer->stage(stage).store();
    std::vector<uint16_t> out;
    for (int c = 0; c < store.chunk_count(); ++c) {
      const auto* first = static_cast<const uint16_t*>(store.weight(c));
      out.insert(out.end(), first, first + store.info(c).count);
    }
    return out;
  }
};

std::vector<double> losses_of(dtype compute, std::optional<uint64_t> seed, int64_t stages = 1) {
  run r(compute, seed, stages);
  r.train(8);
  return r.losses;
}

}  // namespace

TEST_CASE("weights rounded by chance: the same bits twice, other ones with another seed") {
  const auto first = losses_of(dtype::bf16, 7);
  CHECK(first == losses_of(dtype::bf16, 7));
  CHECK(first != losses_of(dtype::bf16, 8));
  CHECK(first != losses_of(dtype::bf16, std::nullopt));
  CHECK(losses_of(dtype::f32, 7) == losses_of(dtype::f32, std::nullopt));
}

TEST_CASE("weights rounded by chance: layouts change nothing, tied copies included (PS-8)") {
  run whole(dtype::bf16, 7), cut(dtype::bf16, 7, 2);
  for (run* r : {&whole, &cut}) {
    for (auto* store : r->stores())
      for (int c = 0; c < store->chunk_count(); ++c)
        store->publish_weights(r->trainer->compute(), c, 5);
    REQUIRE(r->trainer->compute().synchronize());
  }
  auto& all = whole.trainer->stage(0).store();
  int compared = 0, tied = 0;
  for (auto* store : cut.stores()) {
    for (int c = 0; c < store->chunk_count(); ++c) {
      tied += store->info(c).tied_copy;
      for (int t = 0; t < static_cast<int>(store->info(c).tensors.size()); ++t, ++compared) {
        const auto& tensor = store->info(c).tensors[static_cast<size_t>(t)];
        const auto there = all.find(tensor.name);
        REQUIRE(there);
        CHECK(std::memcmp(store->weight(tensor_ref{c, t}), all.weight(*there),
                          static_cast<size_t>(tensor.count) * size_of(dtype::bf16)) == 0);
      }
    }
  }
  CHECK(compared > 30);
  CHECK(tied == 1);
}

TEST_CASE("weights rounded by chance: losses near those in float32") {
  const auto exact = losses_of(dtype::f32, std::nullopt), chance = losses_of(dtype::bf16, 7);
  for (size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(chance[i] - exact[i]) < 0.03 * exact[i]);
  CHECK(chance.back() < chance.front());
}

TEST_CASE("weights rounded by chance: a restored store has the copies that the run had") {
  const scratch dir;
  run saved(dtype::bf16, 7), back(dtype::bf16, 7), other(dtype::bf16, std::nullopt);
  saved.train(3);
  const auto folder = save_stages(saved.stores(), dir.path, 3);
  auto from = cp::reader::open(folder);
  REQUIRE(from);
  for (run* r : {&back, &other})
    REQUIRE(restore_state(r->trainer->stage(0).store(), *from, restored::everything));
  CHECK(back.weights() == saved.weights());
  CHECK(other.weights() != saved.weights());  // nearest: the masters are the same, they are not
  REQUIRE(restore_state(back.trainer->stage(0).store(), *from, restored::weights));
  CHECK(back.weights() == other.weights());  // another run's start
}
