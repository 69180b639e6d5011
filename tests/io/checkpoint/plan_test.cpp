// Who writes what, and who reads what: everything exactly once, from any layout to any other.
#include <random>
#include <set>

#include "io/checkpoint/restore_plan.hpp"
#include "io/checkpoint/save_plan.hpp"
#include "tests/io/checkpoint/sample.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

using cover = std::map<std::pair<std::string, part>, std::vector<int>>;

/// How often each element is in a plan.
cover count(const std::vector<rank_plan>& plans) {
  cover out;
  for (const auto& plan : plans)
    for (const auto& p : plan.pieces) {
      auto& seen = out[{p.what.tensor, p.what.which}];
      seen.resize(*elements_of(p.what.shape));
      for (uint64_t i = 0; i < p.what.count; ++i) ++seen.at(p.what.first + i);
    }
  return out;
}

uint64_t tensors_in(const std::vector<plan_stage>& stages) {
  uint64_t n = 0;
  for (const auto& stage : stages)
    for (const auto& c : stage) n += c.tensors.size() * c.parts.size();
  return n;
}

/// What a rank of another layout would read: the tensors of its own plan.
std::vector<want> wants_of(const rank_plan& plan) {
  std::vector<want> out;
  for (const auto& p : plan.pieces)
    out.push_back({p.what.tensor, p.what.which, p.what.first, p.what.count, p.what.stream_offset});
  return out;
}

/// Elements of `bytes` that are not what the sample says.
uint64_t wrong_in(const rank_plan& plan, const std::vector<std::byte>& bytes) {
  uint64_t wrong = 0;
  for (const auto& p : plan.pieces)
    for (uint64_t i = 0; i < p.what.count; ++i) {
      const float expected = sample::value(p.what.tensor, p.what.which, p.what.first + i);
      wrong += std::memcmp(&expected, bytes.data() + p.what.stream_offset + 4 * i, 4) == 0 ? 0 : 1;
    }
  return wrong;
}

/// One part of a chunk as it lies in memory.
std::vector<std::byte> memory_of(const plan_chunk& chunk, part which) {
  std::vector<float> values;
  for (const auto& t : chunk.tensors) {
    values.resize(t.offset);
    for (uint64_t i = 0; i < *elements_of(t.shape); ++i)
      values.push_back(sample::value(t.name, which, i));
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("SP-1..SP-3: every element once, in order, of the own slices alone, 1x1 to 4x4") {
  for (int pipeline = 1; pipeline <= 4; ++pipeline)
    for (int data = 1; data <= 4; ++data) {
      CAPTURE(pipeline);
      CAPTURE(data);
      const auto stages = sample::stages(pipeline);
      auto plans = plan_save(stages, {data, 16});
      REQUIRE(plans);
      REQUIRE(plans->size() == static_cast<size_t>(data * pipeline));
      const auto seen = count(*plans);
      CHECK(seen.size() == tensors_in(stages));
      for (const auto& [name, times] : seen)
        CHECK(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));  // SP-1
      for (const auto& plan : *plans) {
        uint64_t at = 0;
        uint32_t chunk = 0;
        for (const auto& p : plan.pieces) {  // SP-2
          CHECK(p.what.stream_offset == at);
          CHECK(p.chunk >= chunk);
          chunk = p.chunk;
          at += p.what.bytes;
          const auto& its = stages[static_cast<size_t>(plan.place.pipeline)][p.chunk];
          CHECK(std::any_of(its.tensors.begin(), its.tensors.end(), [&](const plan_tensor& t) {
            return t.name == p.what.tensor && t.offset + p.what.first == p.chunk_first;
          }));
          const uint64_t slice = sample::slice_elements(its, static_cast<uint64_t>(data));
          CHECK(p.chunk_first >= static_cast<uint64_t>(plan.place.data) * slice);  // SP-3
          CHECK(p.chunk_first + p.what.count <= static_cast<uint64_t>(plan.place.data + 1) * slice);
        }
        CHECK(at == plan.stream_bytes);
      }
    }
}

TEST_CASE("a chunk is cut as it says") {
  plan_stage stage{sample::chunk("c", {{"a", {40}, false, 0}, {"b", {40}, false, 0}})};
  stage[0].slice_elements = 32;  // of 88, with 8 of padding behind a
  auto plans = plan_save(std::span(&stage, 1), {3, 1024});
  REQUIRE(plans);
  struct {
    const char* tensor;
    uint64_t first, count, chunk_first;
  } const wanted[][2] = {
      {{"a", 0, 32, 0}, {}}, {{"a", 32, 8, 32}, {"b", 0, 16, 48}}, {{"b", 16, 24, 64}, {}}};
  for (size_t d = 0; d < 3; ++d) {
    const auto& pieces = (*plans)[d].pieces;
    const size_t each = d == 1 ? 2 : 1;
    REQUIRE(pieces.size() == 3 * each);
    for (size_t i = 0; i < each; ++i) {
      CHECK(pieces[i].what.tensor == wanted[d][i].tensor);
      CHECK(pieces[i].what.first == wanted[d][i].first);
      CHECK(pieces[i].what.count == wanted[d][i].count);
      CHECK(pieces[i].chunk_first == wanted[d][i].chunk_first);
      CHECK(pieces[each + i].what.which == part::exp_avg);
    }
  }
  CHECK(plan_save(std::span(&stage, 1), {4, 1024}));         // the last has nothing
  for (const uint64_t wrong : {uint64_t{29}, UINT64_MAX}) {  // 3 * 29 = 87
    stage[0].slice_elements = wrong;
    CHECK_FALSE(plan_save(std::span(&stage, 1), {3, 1024}));
  }
}

TEST_CASE("a save plan numbers the ranks as the grid does, and the same way each time") {
  const auto stages = sample::stages(2);
  const save_options o{3, 16};
  auto plans = plan_save(stages, o);
  auto again = plan_save(stages, o);
  REQUIRE(plans);
  REQUIRE(again);
  REQUIRE(plans->size() == 6);
  for (uint32_t r = 0; r < 6; ++r) {
    const auto& plan = (*plans)[r];
    CHECK(plan.rank == r);
    CHECK(plan.place == rank_grid(3, 1, 2).place_of(static_cast<int>(r)));
    REQUIRE(plan.pieces.size() == (*again)[r].pieces.size());
    for (size_t i = 0; i < plan.pieces.size(); ++i)
      CHECK(plan.pieces[i].what == (*again)[r].pieces[i].what);
  }
}

TEST_CASE(
    "SP-4: captured slot by slot, a stage's chunks give the stream that its pieces describe") {
  scratch dir;
  sample::made what;
  what.pipeline = 2;
  what.data = 3;
  const auto folder = sample::make(dir.path, what);
  const auto stages = sample::stages(2);
  auto plans = plan_save(stages, {3, 16});
  REQUIRE(plans);
  for (const auto& plan : *plans) {
    const auto shard = sample::bytes_of(folder / fmt::format("rank-{:05}.shard", plan.rank));
    const auto capture = plan_capture(plan, sample::slot_bytes);
    CHECK(capture.fills.size() == slot_count(plan.stream_bytes, sample::slot_bytes));
    CHECK(capture.copies.size() < plan.pieces.size() + capture.fills.size() + 1);
    uint64_t at = 0, wrong = 0;
    for (const auto& fill : capture.fills) {
      CHECK(fill.bytes == std::min<uint64_t>(sample::slot_bytes, plan.stream_bytes - at));
      uint64_t used = 0;
      for (size_t c = fill.copies_begin; c < fill.copies_end; ++c) {
        const auto& copy = capture.copies[c];
        CHECK(copy.slot_offset == used);
        const auto chunk =
            memory_of(stages[static_cast<size_t>(plan.place.pipeline)][copy.chunk], copy.which);
        wrong += std::equal(chunk.begin() + static_cast<ptrdiff_t>(copy.chunk_byte),
                            chunk.begin() + static_cast<ptrdiff_t>(copy.chunk_byte + copy.bytes),
                            shard.begin() + static_cast<ptrdiff_t>(at + used))
                     ? 0
                     : 1;
        used += copy.bytes;
      }
      CHECK(used == fill.bytes);
      at += used;
    }
    CHECK(at == plan.stream_bytes);
    CHECK(wrong == 0);
  }
}

TEST_CASE("tensors that touch in their chunk are captured by one copy") {
  plan_stage stage{sample::chunk("c", {{"a", {16}, false, 0}, {"b", {32}, false, 0}})};
  auto plans = plan_save(std::span(&stage, 1), {1, 16});
  REQUIRE(plans);
  const auto capture = plan_capture((*plans)[0], 4096);
  REQUIRE(capture.copies.size() == 3);  // one per part
  CHECK(capture.copies[1] == capture_copy{0, part::exp_avg, 0, 192, 192});
}

TEST_CASE("a save plan refuses what no manifest could say") {
  const auto refused = [](const std::vector<plan_stage>& stages) {
    auto plans = plan_save(stages, {2, 16});
    return !plans && plans.error().code == errc::bug;
  };
  auto twice = sample::stages(2);
  twice[1].push_back(sample::layer(0));
  CHECK(refused(twice));
  auto empty = sample::stages(1);
  empty[0][0].tensors[0].shape = {0, 13};
  CHECK(refused(empty));
  auto parts = sample::stages(1);
  parts[0][0].parts.push_back(parts[0][0].parts[0]);
  CHECK(refused(parts));
  auto type = sample::stages(1);
  type[0][0].parts[0].type = tensor_dtype::i64;
  CHECK(refused(type));
  CHECK(!plan_save({}, {1, 16}));
}

TEST_CASE("more replicas than elements leave some with nothing to write") {
  plan_stage stage{sample::chunk("c", {{"t", {3}, false, 0}})};
  stage[0].parts.resize(1);
  auto plans = plan_save(std::span(&stage, 1), {8, 1});
  REQUIRE(plans);
  uint64_t bytes = 0;
  for (const auto& p : *plans) bytes += p.stream_bytes;
  CHECK(bytes == 12);
}

TEST_CASE("any layout restores any other, bit by bit (RP-1)") {
  const std::vector<std::pair<int, int>> layouts = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {4, 4}};
  for (const auto& [from_pipeline, from_data] : layouts) {
    scratch dir;
    sample::made what;
    what.pipeline = from_pipeline;
    what.data = from_data;
    auto r = reader::open(sample::make(dir.path, what));
    REQUIRE_MESSAGE(r, r.error().message);
    CHECK(r->content().head.layout == rank_grid(from_data, 1, from_pipeline));
    for (const auto& [pipeline, data] : layouts) {
      auto plans = plan_save(sample::stages(pipeline), {data, 16});
      REQUIRE(plans);
      for (const auto& plan : *plans) {
        std::vector<std::byte> bytes(plan.stream_bytes);
        auto read = r->read(wants_of(plan), bytes);
        REQUIRE_MESSAGE(read, read.error().message);
        CHECK(wrong_in(plan, bytes) == 0);
      }
    }
  }
}

TEST_CASE("RP-2: reads are whole slots, each once, sorted, copies tile what is wanted") {
  scratch dir;
  sample::made what;
  what.pipeline = 2;
  what.data = 2;
  auto r = reader::open(sample::make(dir.path, what));
  REQUIRE(r);
  const auto& m = r->content();
  const part all[] = {part::master, part::exp_avg, part::exp_avg_sq};
  std::vector<want> wants;
  uint64_t to = 0;
  for (const auto& batch : batches_of(m, all, 1000))
    for (auto w : batch) {
      w.destination = to;
      to += w.count * 4;
      wants.push_back(w);
    }
  auto plan = plan_restore(m, wants);
  REQUIRE(plan);
  CHECK(plan->wanted_bytes == to);
  std::set<std::pair<uint32_t, uint64_t>> seen;
  std::vector<int> covered(to);
  uint64_t streams = 0;
  for (const auto& f : m.files) streams += f.stream_bytes;
  for (const auto& read : plan->reads) {
    CHECK(seen.insert({read.file, read.slot}).second);
    CHECK(seen.rbegin()->first == read.file);
    CHECK(read.offset == read.slot * sample::slot_bytes);
    CHECK(read.offset + read.bytes <= m.files[read.file].stream_bytes);
    for (size_t c = read.copies_begin; c < read.copies_end; ++c) {
      CHECK(plan->copies[c].from + plan->copies[c].bytes <= read.bytes);
      for (uint64_t i = 0; i < plan->copies[c].bytes; ++i) ++covered[plan->copies[c].to + i];
    }
  }
  CHECK(plan->read_bytes == streams);  // everything is wanted, so everything is read once
  CHECK(std::all_of(covered.begin(), covered.end(), [](int n) { return n == 1; }));
}

TEST_CASE("random ranges come out as they went in, wrong ones are named") {
  scratch dir;
  sample::made what;
  what.pipeline = 4;
  what.data = 3;
  auto r = reader::open(sample::make(dir.path, what));
  REQUIRE(r);
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const auto& t = r->content().tensors[random() % r->content().tensors.size()];
    const auto which = static_cast<part>(random() % 3);
    const uint64_t first = random() % t.elements();
    const uint64_t n = random() % (t.elements() - first) + 1;
    std::vector<float> out(n);
    const want w{t.name, which, first, n, 0};
    REQUIRE(r->read(std::span(&w, 1), std::as_writable_bytes(std::span(out))));
    for (uint64_t i = 0; i < n; ++i) REQUIRE(out[i] == sample::value(t.name, which, first + i));
  }
  std::vector<std::byte> out(100);
  const auto refused = [&](want w, errc code) {
    auto s = r->read(std::span(&w, 1), out);
    return !s && s.error().code == code;
  };
  CHECK(refused({"nobody", part::master, 0, 1, 0}, errc::not_found));
  CHECK(refused({"transformer.ln_f.weight", part::weight, 0, 1, 0}, errc::not_found));
  CHECK(refused({"transformer.ln_f.weight", part::master, 13, 1, 0}, errc::bad_data));
  CHECK(refused({"transformer.ln_f.weight", part::master, 1, UINT64_MAX, 0}, errc::bad_data));
  CHECK(refused({"transformer.ln_f.weight", part::master, 0, 13, 60}, errc::bad_data));
  CHECK(refused({"transformer.ln_f.weight", part::master, 0, 13, UINT64_MAX}, errc::bad_data));
}
