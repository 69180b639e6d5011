// A checkpoint as a Hugging Face folder, and two checkpoints against each other.
#include "io/checkpoint/export.hpp"

#include <cmath>

#include "io/checkpoint/diff.hpp"
#include "io/folder/owned.hpp"
#include "io/formats/safetensors.hpp"
#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/no_rename_flags.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

reader open(const std::filesystem::path& folder) {
  auto r = reader::open(folder);
  REQUIRE_MESSAGE(r, r.error().message);
  return *r;
}

/// Elements of an exported folder that are not what the sample says.
uint64_t wrong_in(const std::filesystem::path& folder, const manifest& m, tensor_dtype type) {
  auto store = tensor_store::open(folder);
  REQUIRE_MESSAGE(store, store.error().message);
  CHECK(store->tensors().size() == m.tensors.size());
  uint64_t wrong = 0;
  for (const auto& t : m.tensors) {
    const auto* found = store->find(t.name);
    REQUIRE(found);
    CHECK(found->type == type);
    std::vector<float> values(found->elements());
    REQUIRE(copy_as_f32(*found, values));
    const auto columns = t.shape.size() == 2 ? static_cast<uint64_t>(t.shape[1]) : 1;
    const auto rows = t.elements() / columns;
    if (t.transposed) CHECK(found->shape == std::vector<int64_t>{t.shape[1], t.shape[0]});
    for (uint64_t i = 0; i < t.elements(); ++i) {
      float expected = sample::value(t.name, part::master, i);
      if (type == tensor_dtype::bf16) expected = bf16_to_f32(f32_to_bf16(expected));
      const uint64_t at = t.transposed ? i % columns * rows + i / columns : i;
      wrong += values[at] == expected ? 0 : 1;
    }
  }
  return wrong;
}

const tensor_difference* find(const std::vector<tensor_difference>& all, const std::string& tensor,
                              part which) {
  for (const auto& d : all)
    if (d.tensor == tensor && d.which == which) return &d;
  return nullptr;
}

}  // namespace

TEST_CASE("an export holds every weight in file layout, from any layout, in f32 and bf16") {
  for (const auto& [pipeline, data] : {std::pair(1, 1u), std::pair(4, 3u)}) {
    scratch dir;
    sample::made what;
    what.pipeline = pipeline;
    what.data = data;
    auto r = open(sample::make(dir.path, what));
    for (const auto type : {tensor_dtype::f32, tensor_dtype::bf16})
      for (const uint64_t batch : {uint64_t{256} << 20, uint64_t{2500}, uint64_t{64}}) {
        CAPTURE(batch);
        uint64_t last = 0, of = 0;
        export_options o{type, 5'000'000'000, batch, {2, [&](uint64_t done, uint64_t total) {
                                                        last = done;
                                                        of = total;
                                                        return true;
                                                      }}};
        auto made = export_model(r, dir / "out", o);
        REQUIRE_MESSAGE(made, made.error().message);
        CHECK(made->tensors == r.content().tensors.size());
        CHECK(last == of);
        CHECK(of == made->bytes * (type == tensor_dtype::bf16 ? 2 : 1));
        CHECK(wrong_in(dir / "out", r.content(), type) == 0);
      }
    auto config = io::read_file(dir / "out" / "config.json", 1000);
    REQUIRE(config);
    CHECK(config->find("\"torch_dtype\": \"bfloat16\"") != std::string::npos);
    CHECK(std::filesystem::exists(dir / "out" / "tokenizer.json"));
    CHECK(!std::filesystem::exists(dir / "out" / "train_state.json"));
  }
}

TEST_CASE("an export is cut into shards at the limit") {
  scratch dir;
  auto r = open(sample::make(dir.path));
  export_options o;
  o.max_shard_bytes = 6000;
  REQUIRE(export_model(r, dir / "out", o));
  CHECK(std::filesystem::exists(dir / "out" / "model.safetensors.index.json"));
  CHECK(!std::filesystem::exists(dir / "out" / "model.safetensors"));
  CHECK(wrong_in(dir / "out", r.content(), tensor_dtype::f32) == 0);
}

TEST_CASE("a damaged checkpoint is not exported") {
  scratch dir;
  const auto folder = sample::make(dir.path);
  auto bytes = sample::bytes_of(folder / "rank-00000.shard");
  sample::flip(bytes[10], 2);
  sample::write_bytes(folder / "rank-00000.shard", bytes);
  auto made = export_model(open(folder), dir / "out", {});
  REQUIRE(!made);
  CHECK(made.error().code == errc::bad_data);
  CHECK(is_error(made, checksum_wrong, "rank-00000.shard", 0));
  CHECK(!std::filesystem::exists(dir / "out" / "model.safetensors"));
}

TEST_CASE("two layouts of the same state do not differ, other values are counted") {
  scratch one, two;
  sample::made what;
  auto a = open(sample::make(one.path, what));
  what.pipeline = 4;
  what.data = 2;
  auto b = open(sample::make(two.path, what));
  auto same = diff(a, b);
  REQUIRE_MESSAGE(same, same.error().message);
  CHECK(same->size() == a.content().tensors.size() * 3);
  for (const auto& d : *same) CHECK(d.how == comparison::equal);

  what.seed = 1;
  auto other = open(sample::make(two.path, what));
  auto all = diff(a, other);
  REQUIRE(all);
  const auto* d = find(*all, "transformer.wte.weight", part::exp_avg);
  REQUIRE(d);
  CHECK(d->how == comparison::differs);
  double largest = 0;
  uint64_t differing = 0;
  for (uint64_t i = 0; i < d->elements; ++i) {
    const double x = sample::value(d->tensor, d->which, i, 0);
    const double y = sample::value(d->tensor, d->which, i, 1);
    differing += x != y ? 1 : 0;
    largest = std::max(largest, std::abs(x - y));
  }
  CHECK(d->differing == differing);
  CHECK(d->largest == largest);
}

TEST_CASE("tensors that only one has, of another shape, or not finite, are told") {
  scratch dir;
  const auto write = [&](uint64_t step, const std::vector<plan_tensor>& tensors, float first) {
    plan_stage stage{sample::chunk("c", tensors)};
    stage[0].parts = {{part::master, tensor_dtype::f32}, {part::weight, tensor_dtype::bf16}};
    write_options o;
    o.dir = dir.path;
    o.head = {"d", step, 1, {}, sample::slot_bytes, 0, 0, {}, 0};
    auto path =
        write_checkpoint(o, std::span(&stage, 1),
                         [&](uint32_t, const planned_piece& p, std::span<std::byte> out) -> status {
                           std::fill(out.begin(), out.end(), std::byte{0});
                           if (p.what.which == part::master && p.what.first == 0)
                             std::memcpy(out.data(), &first, sizeof first);
                           return {};
                         },
                         {});
    REQUIRE_MESSAGE(path, path.error().message);
    return open(*path);
  };
  auto a = write(1, {{"x", {3}, false, 0}, {"y", {5}, false, 0}, {"z", {2}, false, 0}}, 1.0f);
  auto b = write(2, {{"x", {3}, false, 0}, {"y", {6}, false, 0}, {"w", {2}, false, 0}},
                 std::numeric_limits<float>::quiet_NaN());
  auto all = diff(a, b);
  REQUIRE(all);
  CHECK(all->size() == 8);
  const auto* x = find(*all, "x", part::master);
  REQUIRE(x);
  CHECK(x->differing == 1);
  CHECK(std::isinf(x->largest));
  CHECK(find(*all, "x", part::weight)->how == comparison::equal);
  CHECK(find(*all, "y", part::master)->how == comparison::other_shape);
  CHECK(find(*all, "z", part::weight)->how == comparison::only_a);
  CHECK(find(*all, "w", part::master)->how == comparison::only_b);
  // Odd numbers of 2-byte elements: f32 values that straddle slots would still be themselves.
  auto weight = a.read_tensor("y", part::weight);
  REQUIRE(weight);
  CHECK(weight->size() == 10);
}

TEST_CASE("EX-1, EX-2: an export takes the place of an export, and of nothing else") {
  scratch dir;
  auto r = open(sample::make(dir.path));
  export_options one, many;
  many.max_shard_bytes = 6000;
  for (const auto* o : {&one, &many, &one}) {
    REQUIRE(export_model(r, dir / "out/", *o));
    CHECK(wrong_in(dir / "out", r.content(), tensor_dtype::f32) == 0);
    CHECK(std::filesystem::exists(dir / "out/model.safetensors") == (o == &one));
    CHECK(!std::filesystem::exists(dir / "out.partial"));
  }
  // What an interrupted export left goes.
  REQUIRE(make_owned(dir / "out.partial", {folder_kind::model, {}, {"model.safetensors"}}));
  put_file(dir / "out.partial/model.safetensors", "half");
  REQUIRE(export_model(r, dir / "out", one));
  put_file(dir / "out/model-00001-of-00002.safetensors", "mine");  // a name that it could have
  const auto whole = tree_of(dir.path);
  CHECK(export_model(r, dir / "out", one).error().code == errc::permission);
  CHECK(tree_of(dir.path) == whole);
  std::filesystem::remove(dir / "out/model-00001-of-00002.safetensors");
  for (const char* name : {"out/notes.txt", "out.partial/notes.txt", "out/config.json/x"}) {
    CAPTURE(name);
    if (std::string(name).ends_with("x")) std::filesystem::remove(dir / "out/config.json");
    put_file(dir / name, "mine");
    const auto before = tree_of(dir.path);
    const auto refused = export_model(r, dir / "out", one);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::permission);
    CHECK(tree_of(dir.path) == before);
    std::filesystem::remove_all((dir / name).parent_path() / "notes.txt");
    if (std::string(name).starts_with("out.partial")) std::filesystem::remove(dir / "out.partial");
  }
  put_file(dir / "base/model.safetensors", "weights from elsewhere");
  CHECK(export_model(r, dir / "base", one).error().code == errc::permission);
  std::filesystem::create_directory_symlink(dir / "base", dir / "link");
  CHECK(export_model(r, dir / "link", one).error().code == errc::permission);
  put_file(dir / "file", "mine");
  CHECK(export_model(r, dir / "file", one).error().code == errc::permission);
  std::filesystem::create_directory(dir / "empty");
  CHECK(export_model(r, dir / "empty", one));
}

TEST_CASE("EX-2: what comes to an export's place while it is written stays") {
  scratch dir;
  auto r = open(sample::make(dir.path));
  for (const bool over : {false, true}) {
    const auto to = dir / (over ? "over" : "new");
    if (over) REQUIRE(export_model(r, to, {}));
    export_options o;
    o.work.progress = [&](uint64_t, uint64_t) {
      put_file(to / "notes.txt", "mine");
      return true;
    };
    const auto refused = export_model(r, to, o);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::permission);
    CHECK(*read_file(to / "notes.txt", 99) == "mine");
    CHECK(!std::filesystem::exists(to.string() + ".partial"));
  }
}

TEST_CASE("EX-3: an export takes an older one's place where names cannot change places") {
  scratch dir;
  auto r = open(sample::make(dir.path));
  export_options many;
  many.max_shard_bytes = 6000;
  result<export_report> first = error{errc::bug, "not tried"}, second = first;
  const bool could = without_rename_flags([&] {
    first = export_model(r, dir / "out", many);
    second = export_model(r, dir / "out", {});
  });
  if (!could) return;
  CHECK(first);
  REQUIRE_MESSAGE(second, (second ? "" : render(second.error())));
  CHECK(wrong_in(dir / "out", r.content(), tensor_dtype::f32) == 0);
  CHECK(!std::filesystem::exists(dir / "out/model.safetensors.index.json"));
  CHECK(!std::filesystem::exists(dir / "out.partial"));
}
