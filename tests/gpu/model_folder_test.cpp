// Hugging Face folders and training state: what is written reads back, what does not fit is named.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gpu/model/hf_folder.hpp"
#include "gpu/model/init.hpp"
#include "gpu/model/stage_shape.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/model_samples.hpp"
#include "tests/gpu/reference/reference_ops.hpp"
#include "tests/gpu/saving.hpp"

namespace troupe::gpu {

using testing::tiny_gpt2;
using testing::tiny_llama;
namespace fs = std::filesystem;

namespace {

/// A folder of the test's own, removed at the end.
struct temporary_folder {
  fs::path path;
  temporary_folder() {
    std::string name = (fs::temp_directory_path() / "troupe-folder-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temporary_folder() { fs::remove_all(path); }
};

std::unique_ptr<parameter_store> make_store(device& owner, const model_config& model,
                                            const stage_shape& shape) {
  auto store = parameter_store::make(owner, stage_chunks(model, shape), {.compute = shape.compute});
  REQUIRE(store);
  return std::move(*store);
}

std::unique_ptr<parameter_store> whole_store(device& owner, const model_config& model) {
  return make_store(owner, model, whole_model(model, 1, 4, dtype::f32));
}

bool same(const parameter_store& a, const parameter_store& b, part which) {
  for (int c = 0; c < a.chunk_count(); ++c) {
    const int other = b.find_chunk(a.info(c).name);
    if (other < 0) continue;
    if (std::memcmp(a.data(c, which), b.data(other, which), a.bytes(c, which)) != 0) return false;
  }
  return true;
}

/// What a file of the store's weights lists: full names and file shapes.
std::vector<io::tensor_spec> weight_specs(const parameter_store& store) {
  std::vector<io::tensor_spec> specs;
  for (int c = 0; c < store.chunk_count(); ++c)
    for (const auto& tensor : store.info(c).tensors)
      specs.push_back({tensor.name, io::tensor_dtype::f32, tensor.file_shape()});
  return specs;
}

/// Writes `values` of one f32 tensor each.
void write_file(const fs::path& path, const std::vector<io::tensor_spec>& specs) {
  auto writer = io::safetensors_writer::create(path, specs);
  REQUIRE(writer);
  const std::vector<std::byte> zeros(writer->remaining());
  REQUIRE(writer->write(zeros));
  REQUIRE(writer->finish());
}

}  // namespace

TEST_CASE("HF-2: a folder that stages wrote in shards reads back bit for bit in any layout") {
  auto owner = make_reference_device();
  for (model_config model : {tiny_gpt2(), tiny_llama()})
    for (auto block : {block_form::sequential, block_form::shared_norm, block_form::two_norms}) {
      model.block = block;
      const temporary_folder folder;
      auto source = whole_store(*owner, model);
      REQUIRE(initialize(*source, model, 5));
      std::vector<std::unique_ptr<parameter_store>> halves;
      for (const auto& shape : split_stages(model, 2, 4)) {
        halves.push_back(make_store(*owner, model, shape));
        REQUIRE(initialize(*halves.back(), model, 5));
      }
      testing::export_stages({halves[0].get(), halves[1].get()}, model, folder.path,
                             io::tensor_dtype::f32, 4000);
      REQUIRE(fs::exists(folder.path / "model.safetensors.index.json"));
      auto read_back = read_folder_model(folder.path);
      REQUIRE(read_back);
      read_back->init_std = model.init_std;
      CHECK(*read_back == model);
      for (int64_t stages : {1, 3})
        for (const auto& shape : split_stages(model, stages, 4)) {
          auto stage = make_store(*owner, model, shape);
          const status loaded = load_weights(*stage, *read_back, folder.path);
          REQUIRE_MESSAGE(loaded, (loaded ? "" : render(loaded.error())));
          CHECK(same(*stage, *source, part::master));
        }
    }
}

TEST_CASE("GPT-2 matrices are [in, out] in files") {
  auto owner = make_reference_device();
  auto store = whole_store(*owner, tiny_gpt2());
  REQUIRE(initialize(*store, tiny_gpt2(), 5));
  const temporary_folder folder;
  testing::export_stages({store.get()}, tiny_gpt2(), folder.path);
  auto file = io::tensor_store::open(folder.path);
  REQUIRE(file);
  const auto* view = file->find("transformer.h.0.mlp.c_fc.weight");
  REQUIRE(view);
  CHECK(view->shape == std::vector<int64_t>{16, 24});
  float in_file = 0;
  std::memcpy(&in_file, view->bytes.data() + (3 * 24 + 5) * sizeof(float), sizeof(float));
  const auto ref = store->find("transformer.h.0.mlp.c_fc.weight");
  CHECK(in_file == store->master(ref->chunk)[store->info(*ref).offset + 5 * 16 + 3]);
}

TEST_CASE("bf16 files load as the rounded values") {
  auto owner = make_reference_device();
  auto store = whole_store(*owner, tiny_llama());
  REQUIRE(initialize(*store, tiny_llama(), 5));
  const temporary_folder folder;
  testing::export_stages({store.get()}, tiny_llama(), folder.path, io::tensor_dtype::bf16);
  auto back = whole_store(*owner, tiny_llama());
  REQUIRE(load_weights(*back, tiny_llama(), folder.path));
  for (int64_t i = 0; i < 50; ++i) {
    const float value = store->master(1)[i];
    CHECK(back->master(1)[i] == io::bf16_to_f32(io::f32_to_bf16(value)));
  }
}

TEST_CASE("HF-1: missing, extra and misshapen tensors are named, known buffers are ignored") {
  auto owner = make_reference_device();
  const model_config model = tiny_gpt2();
  auto store = whole_store(*owner, model);
  const temporary_folder folder;
  const fs::path path = folder.path / "model.safetensors";
  const auto good = weight_specs(*store);
  auto load = [&](std::vector<io::tensor_spec> specs) {
    write_file(path, specs);
    return load_weights(*store, model, folder.path);
  };
  CHECK(load(good));

  auto unprefixed = good;
  for (auto& spec : unprefixed) spec.name = spec.name.substr(std::string("transformer.").size());
  unprefixed.push_back({"h.0.attn.bias", io::tensor_dtype::f32, {1, 1, 12, 12}});
  unprefixed.push_back({"h.2.attn.masked_bias", io::tensor_dtype::f32, {}});
  unprefixed.push_back({"lm_head.weight", io::tensor_dtype::f32, {19, 16}});
  CHECK(load(unprefixed));

  auto missing = good;
  missing.erase(missing.begin() + 3);
  CHECK(is_error(load(missing), weights_missing, good[3].name));
  auto extra = good;
  extra.push_back({"transformer.h.7.ln_1.weight", io::tensor_dtype::f32, {16}});
  const auto where = folder.path.string();
  CHECK(load(extra).error() == tensor_unexpected("transformer.h.7.ln_1.weight").within(where));
  auto misshapen = good;
  misshapen[4].shape = {48, 16};  // c_attn in [out, in]
  CHECK(load(misshapen).error() ==
        tensor_misshapen(good[4].name, "[48, 16]", "[16, 48]").within(where));
  auto integers = good;
  integers[2].type = io::tensor_dtype::i32;
  CHECK_FALSE(load(integers));
}

namespace {

/// One store for each rank of a layout, by rank.
std::vector<std::unique_ptr<parameter_store>> stores_of(device& owner, const model_config& model,
                                                        int data, int pipeline, dtype compute) {
  std::vector<std::unique_ptr<parameter_store>> out;
  for (auto shape : split_stages(model, pipeline, 4))
    for (int d = 0; d < data; ++d) {
      shape.seq = 4;
      auto made =
          parameter_store::make(owner, stage_chunks(model, shape),
                                {.compute = compute, .training = true, .replica = {d, data}});
      REQUIRE(made);
      out.push_back(std::move(*made));
    }
  return out;
}

/// Elements of a rank's slices that are not the whole store's, in any saved part.
int64_t wrong_in(const parameter_store& rank, const parameter_store& whole) {
  int64_t wrong = 0;
  for (int c = 0; c < rank.chunk_count(); ++c) {
    const int at = whole.find_chunk(rank.info(c).name);
    REQUIRE(at >= 0);
    const auto& own = rank.slice(c);
    for (const part which : {part::master, part::m, part::v}) {
      const auto* a = static_cast<const float*>(rank.data(c, which));
      const auto* b = static_cast<const float*>(whole.data(at, which)) + own.first;
      for (int64_t i = 0; i < own.count; ++i) wrong += a[i] != b[i];
    }
    const auto width = size_of(rank.options().compute);
    wrong += own.count > 0 && std::memcmp(rank.weight_slice(c),
                                          static_cast<const std::byte*>(whole.weight(at)) +
                                              static_cast<size_t>(own.first) * width,
                                          static_cast<size_t>(own.count) * width) != 0;
  }
  return wrong;
}

}  // namespace

TEST_CASE("state that replicas share moves between all layouts") {
  auto owner = make_reference_device();
  for (const auto compute : {dtype::f32, dtype::bf16}) {
    const model_config model = tiny_gpt2();
    auto source = std::move(stores_of(*owner, model, 1, 1, compute).front());
    REQUIRE(initialize(*source, model, 5));
    for (int c = 0; c < source->chunk_count(); ++c)
      for (const auto& tensor : source->info(c).tensors) {
        fill_normal(1, tensor.name, 0, tensor.count, 1.0, source->m(c) + tensor.offset);
        fill_normal(2, tensor.name, 0, tensor.count, 1.0, source->v(c) + tensor.offset);
      }
    const temporary_folder folder;
    uint64_t step = 1;
    auto saved = testing::save_stages({source.get()}, folder.path, step);
    for (auto [data, pipeline] :
         {std::pair{2, 1}, {1, 1}, {3, 1}, {2, 2}, {1, 2}, {5, 3}, {1, 1}}) {
      CAPTURE(data);
      CAPTURE(pipeline);
      auto from = io::checkpoint::reader::open(saved);
      REQUIRE(from);
      auto ranks = stores_of(*owner, model, data, pipeline, compute);
      std::vector<parameter_store*> all;
      for (auto& rank : ranks) {
        REQUIRE(restore_state(*rank, *from, restored::everything));
        CHECK(wrong_in(*rank, *source) == 0);
        all.push_back(rank.get());
      }
      saved = testing::save_stages(all, folder.path, ++step);
    }
  }
}

TEST_CASE("training state moves between pipeline layouts by name") {
  auto owner = make_reference_device();
  const model_config model = tiny_gpt2();
  auto source = whole_store(*owner, model);
  REQUIRE(initialize(*source, model, 5));
  for (int c = 0; c < source->chunk_count(); ++c)
    for (const auto& tensor : source->info(c).tensors) {
      fill_normal(1, tensor.name, 0, tensor.count, 1.0, source->m(c) + tensor.offset);
      fill_normal(2, tensor.name, 0, tensor.count, 1.0, source->v(c) + tensor.offset);
    }
  const temporary_folder folder;
  auto whole = io::checkpoint::reader::open(testing::save_stages({source.get()}, folder.path, 1));
  REQUIRE(whole);
  std::vector<std::unique_ptr<parameter_store>> stages;
  std::vector<parameter_store*> all;
  for (const auto& shape : split_stages(model, 3, 4)) {
    stages.push_back(make_store(*owner, model, shape));
    all.push_back(stages.back().get());
    REQUIRE(restore_state(*all.back(), *whole, restored::everything));
    for (part which : {part::master, part::m, part::v}) CHECK(same(*all.back(), *source, which));
  }
  auto parts = io::checkpoint::reader::open(testing::save_stages(all, folder.path, 2));
  REQUIRE(parts);
  auto back = whole_store(*owner, model);
  REQUIRE(restore_state(*back, *parts, restored::everything));
  for (part which : {part::master, part::m, part::v}) CHECK(same(*back, *source, which));
  auto weights = whole_store(*owner, model);
  REQUIRE(restore_state(*weights, *parts, restored::weights));
  CHECK(same(*weights, *source, part::master));
  CHECK_FALSE(same(*weights, *source, part::m));
  std::stop_source ended;
  ended.request_stop();
  const auto stopped = ended.get_token();
  CHECK(restore_state(*weights, *parts, restored::weights, 0, stopped).error().code ==
        errc::cancelled);
  CHECK(initialize(*weights, model, 5, stopped).error().code == errc::cancelled);
  // What is not there, and what is another model's, is named, by every replica.
  auto first = io::checkpoint::reader::open(testing::save_stages({all[0]}, folder.path, 3));
  REQUIRE(first);
  CHECK(is_error(restore_state(*back, *first, restored::everything), checkpoint_lacks));
  auto wider = model;
  wider.vocab = 20;
  auto other = whole_store(*owner, wider);
  CHECK(is_error(restore_state(*other, *parts, restored::everything), shape_differs));
}

}  // namespace troupe::gpu
