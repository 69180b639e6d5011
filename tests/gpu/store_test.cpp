// The ParameterStore: layout that no pipeline changes, parts, versions, readers.
#include "gpu/store/store.hpp"

#include <doctest/doctest.h>

#include <future>
#include <map>

#include "gpu/model/stage_shape.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/store_bytes.hpp"

namespace troupe::gpu {

using testing::tiny_gpt2;
using testing::tiny_llama;

namespace {

std::unique_ptr<parameter_store> make_store(device& owner, const model_config& model,
                                            const store_options& options = {}) {
  auto store = parameter_store::make(
      owner, stage_chunks(model, whole_model(model, 1, 4, options.compute)), options);
  REQUIRE(store);
  return std::move(*store);
}

void check_same(const chunk_info& a, const chunk_info& b) {
  CHECK(a.count == b.count);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    CHECK(a.tensors[i].name == b.tensors[i].name);
    CHECK(a.tensors[i].offset == b.tensors[i].offset);
    CHECK(a.tensors[i].shape == b.tensors[i].shape);
  }
}

}  // namespace

TEST_CASE("PS-1: a chunk is the same in every pipeline layout") {
  for (const model_config& model : {tiny_gpt2(), tiny_llama()}) {
    std::map<std::string, chunk_info> whole;
    for (auto& chunk : stage_chunks(model, whole_model(model, 1, 4, dtype::f32)))
      whole[chunk.name] = chunk;
    for (int64_t stages : {2, 3}) {
      size_t seen = 0;
      for (const auto& shape : split_stages(model, stages, 4))
        for (const auto& chunk : stage_chunks(model, shape)) {
          REQUIRE(whole.contains(chunk.name));
          check_same(chunk, whole[chunk.name]);
          if (!chunk.tied_copy) ++seen;
        }
      CHECK(seen == whole.size());
    }
  }
}

TEST_CASE("PS-2: q, k, v and gate, up are adjacent") {
  model_config model = tiny_llama();
  model.attention_bias = model.output_bias = model.mlp_bias = true;
  auto owner = make_reference_device();
  auto store = make_store(*owner, model);
  auto follows = [&](const std::string& a, const std::string& b) {
    const auto first = store->find("model.layers.1." + a),
               second = store->find("model.layers.1." + b);
    REQUIRE(first);
    REQUIRE(second);
    CHECK(store->info(*first).offset + store->info(*first).count == store->info(*second).offset);
  };
  for (const std::string kind : {"weight", "bias"}) {
    follows("self_attn.q_proj." + kind, "self_attn.k_proj." + kind);
    follows("self_attn.k_proj." + kind, "self_attn.v_proj." + kind);
    follows("mlp.gate_proj." + kind, "mlp.up_proj." + kind);
  }
}

TEST_CASE("spans cover the chunk in order and only matrices decay") {
  auto owner = make_reference_device();
  auto store = make_store(*owner, tiny_gpt2());
  for (int c = 0; c < store->chunk_count(); ++c) {
    int64_t next = 0;
    const auto& spans = store->spans(c);
    REQUIRE(spans.size() == store->info(c).tensors.size());
    for (size_t i = 0; i < spans.size(); ++i) {
      CHECK(spans[i].offset == next);
      next += spans[i].count;
      CHECK(spans[i].decay == (store->info(c).tensors[i].shape.size() == 2));
    }
    CHECK(next == store->info(c).count);
  }
}

TEST_CASE("decay_scope::all decays biases and norms too") {
  stage_shape shape = whole_model(tiny_gpt2(), 1, 4, dtype::f32);
  shape.decay = decay_scope::all;
  for (const auto& chunk : stage_chunks(tiny_gpt2(), shape))
    for (const auto& tensor : chunk.tensors) CHECK(tensor.decay);
}

TEST_CASE("parts: f32 weights are the masters, bf16 weights are copies, inference has no state") {
  auto owner = make_reference_device();
  auto f32 = make_store(*owner, tiny_gpt2());
  CHECK(f32->weight(0) == f32->master(0));
  CHECK(f32->bytes(0, part::master) == 0);
  auto bf16 = make_store(*owner, tiny_gpt2(), {.compute = dtype::bf16});
  CHECK(bf16->weight(0) != static_cast<void*>(bf16->master(0)));
  CHECK(bf16->bytes(0, part::weight) == static_cast<size_t>(bf16->info(0).count) * 2);
  CHECK(bf16->bytes(0, part::master) == static_cast<size_t>(bf16->info(0).count) * 4);
  auto inference = make_store(*owner, tiny_gpt2(), {.training = false});
  CHECK(inference->grad(0) == nullptr);
  CHECK(inference->grad(tensor_ref{0, 0}) == nullptr);
  CHECK(inference->m(0) == nullptr);
  CHECK(bytes_of(*inference) * 4 == bytes_of(*f32));
}

TEST_CASE("PS-4: writing masters publishes weights under a new version") {
  auto owner = make_reference_device();
  auto store = make_store(*owner, tiny_gpt2(), {.compute = dtype::bf16});
  const auto count = static_cast<size_t>(store->info(2).count);
  std::vector<float> values(count), back(count);
  for (size_t i = 0; i < count; ++i) values[i] = 0.5f * static_cast<float>(i % 7);
  const uint64_t before = store->weight_version(2);
  REQUIRE(store->write(2, part::master, values.data()));
  CHECK(store->weight_version(2) > before);
  REQUIRE(store->read(2, part::master, back.data()));
  CHECK(values == back);
  const auto* bits = static_cast<const uint16_t*>(store->weight(2));
  CHECK(bits[1] == 0x3f00);  // 0.5 in bfloat16
  CHECK(bits[4] == 0x4000);  // 2
}

TEST_CASE("PS-5: a writer waits for the readers of its chunk, and only once") {
  auto owner = make_reference_device();
  auto store = make_store(*owner, tiny_gpt2());
  auto reading = owner->make_stream({.name = "snapshot"});
  auto writing = owner->make_stream({.name = "update"});
  REQUIRE(reading);
  REQUIRE(writing);
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::atomic<bool> read_done{false};
  bool written_after_read = false;
  (*reading)->host_task([&, opened]() -> status {
    opened.wait();
    read_done = true;
    return {};
  });
  store->add_reader(1, (*reading)->record());
  store->await_readers(**writing, 1);
  (*writing)->host_task([&]() -> status {
    written_after_read = read_done;
    return {};
  });
  gate.set_value();
  REQUIRE((*writing)->synchronize());
  CHECK(written_after_read);
  REQUIRE((*reading)->synchronize());
}

TEST_CASE("a tied head on another stage has a copy of the token table that is found last") {
  const auto shapes = split_stages(tiny_gpt2(), 2, 4);
  const auto first = stage_chunks(tiny_gpt2(), shapes[0]),
             last = stage_chunks(tiny_gpt2(), shapes[1]);
  CHECK_FALSE(first[0].tied_copy);
  CHECK(last.back().tied_copy);
  CHECK(last.back().name == "embedding");
  auto owner = make_reference_device();
  auto store = parameter_store::make(*owner, last, {});
  REQUIRE(store);
  const auto found = (*store)->find("transformer.wte.weight");
  REQUIRE(found);
  CHECK((*store)->info(found->chunk).tied_copy);
}

}  // namespace troupe::gpu
