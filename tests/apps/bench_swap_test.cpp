// `troupe bench swap`: its ways on a small model, what it compares, and what it refuses. Timing
// decides nothing here.
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/bench/swap_aims.hpp"
#include "apps/bench/swap_largest.hpp"
#include "apps/bench/swap_run.hpp"
#include "apps/bench/swap_steady.hpp"
#include "apps/bench/swap_trainer.hpp"
#include "tests/apps/ended.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps::swap_bench;

namespace {

swap_plan small_plan(const scratch& dir) {
  swap_plan plan;
  plan.model = "tiny";
  plan.tokens = 16;
  plan.dir = dir.path;
  return plan;
}

/// Whose layers need so much for activations that few of them fill a budget.
swap_plan plan_of_few_layers(const scratch& dir) {
  auto plan = small_plan(dir);
  plan.tokens = 512;
  plan.recompute = false;
  return plan;
}

struct way_steps {
  trainer::moved_bytes of_step;
  gpu::step_traffic expected;
  double loss = 0;
  uint64_t hash = 0, parameters = 0;
};

/// Three steps of a way; what it moved is the third one's.
way_steps steps_of(way w, const swap_plan& plan) {
  auto made = trainer::make(w, plan);
  REQUIRE_MESSAGE(made, (made ? std::string() : render(made.error())));
  auto& t = **made;
  REQUIRE(t.run(2));
  const auto before = t.moved();
  const auto ran = t.run(1);
  REQUIRE_MESSAGE(ran, (ran ? std::string() : render(ran.error())));
  const auto after = t.moved();
  way_steps out;
  out.of_step = {after.read - before.read, after.written - before.written};
  out.expected = traffic_of(w, t.options());
  out.loss = t.loss();
  const auto hash = t.state_hash();
  REQUIRE(hash);
  out.hash = *hash;
  out.parameters = t.parameters();
  return out;
}

/// A row with the given medians, seconds, of the ways that have one.
swap_measurement row_of(const std::map<way, double>& seconds, double limit_s, gpu::bound_by part) {
  swap_measurement m;
  m.plan.model = "tiny";
  for (const auto& [w, s] : seconds) {
    way_result r;
    r.of = w;
    r.seconds = {s};
    r.limit_s = limit_s;
    r.expected_s = 1.1 * limit_s;
    r.least_s = 0.9 * limit_s;
    r.part = part;
    r.compute_s = 1;
    r.disk_s = 1;
    r.written_bytes = w == way::saving ? 3 << 20 : 1 << 20;
    m.results.push_back(r);
  }
  return m;
}

ended bench_swap(const scratch& in, const std::string& arguments) {
  return run_in(in.path, "XDG_CACHE_HOME=cache " TROUPE_PROGRAM " bench swap " + arguments);
}

}  // namespace

TEST_CASE("SWB-1 PHW-1: each way moves what is expected of it and comes to the same state") {
  scratch dir;
  const auto plan = small_plan(dir);
  const auto ours = steps_of(way::ours, plan);
  for (const auto w :
       {way::inmem, way::sync, way::phased, way::behind, way::noahead, way::turns, way::noverify}) {
    CAPTURE(to_string(w));
    const auto done = steps_of(w, plan);
    CHECK(done.loss == ours.loss);
    CHECK(done.hash == ours.hash);
    if (w == way::inmem) continue;
    CHECK(done.of_step.read == done.expected.whole().read_bytes);
    CHECK(done.of_step.written == done.expected.whole().written_bytes);
    if (w != way::phased) {
      CHECK(done.of_step.written == ours.of_step.written);
      continue;
    }
    // Each gradient once in each direction, in whole blocks.
    for (const auto more :
         {done.of_step.read - ours.of_step.read, done.of_step.written - ours.of_step.written}) {
      CHECK(more >= 4 * done.parameters);
      CHECK(more < 4 * done.parameters + (uint64_t{1} << 17));
    }
  }
}

TEST_CASE("SWB-1: without files for weights steps read two bytes a parameter more, twice") {
  scratch dir;
  const auto plan = small_plan(dir);
  const auto ours = steps_of(way::ours, plan), derived = steps_of(way::derived, plan);
  CHECK(derived.loss == ours.loss);
  CHECK(derived.hash == ours.hash);
  CHECK(derived.of_step.read == derived.expected.whole().read_bytes);
  CHECK(derived.of_step.written == derived.expected.whole().written_bytes);
  const bool rounds = plan.dtype == "bf16";
  CHECK((derived.of_step.read > ours.of_step.read) == rounds);
  CHECK((derived.of_step.written < ours.of_step.written) == rounds);
}

TEST_CASE("bench swap: the least of a step has its passes once, and computes nothing again") {
  scratch dir;
  auto plan = small_plan(dir);
  for (const double clip_norm : {0.0, 1.0}) {
    CAPTURE(clip_norm);
    plan.clip_norm = clip_norm;
    auto o = options_of(plan);
    auto where = residency_of(way::ours, plan, o);
    REQUIRE(where);
    o.shape.where = std::move(*where);
    const auto least = least_of(o), whole = work_of(way::ours, o).whole();
    CHECK(least.flops < whole.flops);  // which are recomputed
    CHECK(least.read_bytes > 0);
    CHECK((least.read_bytes < whole.read_bytes) == (clip_norm > 0));  // twice
    CHECK(least.written_bytes == whole.written_bytes);
  }
}

TEST_CASE("bench swap: what a way does not sum its limit has not, and gradients have no sums") {
  scratch dir;
  const auto plan = small_plan(dir);
  const auto ours = steps_of(way::ours, plan).expected.whole(),
             without = steps_of(way::noverify, plan).expected.whole(),
             phased = steps_of(way::phased, plan).expected.whole();
  CHECK(ours.summed_bytes == ours.read_bytes + ours.written_bytes);
  CHECK(without.summed_bytes == without.written_bytes);
  CHECK(phased.summed_bytes == ours.summed_bytes);
  CHECK(phased.read_bytes > ours.read_bytes);
}

TEST_CASE("PHW-2: clipped gradients that went to the drive and back come to the same state") {
  scratch dir;
  auto plan = small_plan(dir);
  plan.clip_norm = 0.1;
  const auto ours = steps_of(way::ours, plan), phased = steps_of(way::phased, plan);
  CHECK(phased.loss == ours.loss);
  CHECK(phased.hash == ours.hash);
}

TEST_CASE("SWB-1: a way that comes to another loss or state fails the benchmark, by its name") {
  CHECK(compare_ends({}));
  CHECK(compare_ends({{way::inmem, 2.5, 7}, {way::ours, 2.5, 7}}));
  for (const auto& other : {end_state{way::phased, 2.5, 8}, end_state{way::phased, 2.6, 7}}) {
    const auto differs = compare_ends({{way::inmem, 2.5, 7}, other, {way::ours, 2.5, 7}});
    CHECK(is_error(differs, ways_differ, "phased", 2.5));
  }
}

TEST_CASE("SWB-3: engine and kernel agree within 2 %, or both numbers are told") {
  constexpr uint64_t gib = uint64_t{1} << 30;
  CHECK(compare_counts("ours", {gib, gib, gib, gib}));
  CHECK(compare_counts("ours", {gib, gib, gib + gib / 60, gib - gib / 60}));
  CHECK(compare_counts("ours", {0, 0, 4096, 4096}));  // a page of the program
  const auto read = compare_counts("ours", {gib, gib, gib + gib / 20, gib});
  CHECK(is_error(read, counts_differ, gib, gib + gib / 20));
  CHECK_FALSE(compare_counts("ours", {gib, gib, gib, gib - gib / 20}));
}

TEST_CASE("SWB-2: how far a drive's rates are apart, and that read and write alone decide") {
  gpu::machine_rates before, after;
  before.read_bytes_s = after.read_bytes_s = 2e9;
  before.write_bytes_s = after.write_bytes_s = 1e9;
  before.duplex = 1;
  // Of 1 GB read and 1 GB written: 1 s at once, 1.5 s one after the other.
  auto rates = apart(before, after);
  CHECK(rates.read == 0);
  CHECK(rates.write == 0);
  CHECK(rates.mixed == doctest::Approx(1.0 / 3));
  CHECK(is_steady(rates));
  after.read_bytes_s = 1.72e9;
  rates = apart(before, after);
  CHECK(rates.read == doctest::Approx(0.14));
  CHECK(is_steady(rates));
  CHECK(apart(after, before).read == rates.read);
  after.read_bytes_s = 1.6e9;
  CHECK_FALSE(is_steady(apart(before, after)));
  after.read_bytes_s = 2e9;
  after.write_bytes_s = 0.8e9;
  CHECK_FALSE(is_steady(apart(before, after)));
  CHECK(apart({}, {}).mixed == 0);
}

TEST_CASE("SWB-2: median and worst of the rounds are told, also where none counts") {
  swap_measurement m;
  m.rounds_apart = {{0.1, 0.2, 0.3}, {0.4, 0.2, 0.1}, {0.2, 0.6, 0.2}};
  m.discarded = 3;
  m.results.resize(1);
  const auto told = text(m);
  CHECK(told.find("read 20 % (40 % at worst), write 20 % (60 % at worst), mixed 20 % (30 % at "
                  "worst)") != std::string::npos);
  CHECK(told.find("no round counts: the drive was not steady") != std::string::npos);
  const auto j = json(m)["apart"];
  CHECK(j["read"]["median"] == 0.2);
  CHECK(j["read"]["worst"] == 0.4);
  CHECK(j["write"]["median"] == 0.2);
  CHECK(j["write"]["worst"] == 0.6);
  CHECK(j["mixed"]["worst"] == 0.3);
}

TEST_CASE("the kernel's counts are read by name, and what is missing or no number is told") {
  const auto counts = parse_kernel_counts("rchar: 1\nread_bytes: 22\nwrite_bytes: 333\n");
  REQUIRE(counts);
  CHECK(counts->read_bytes == 22);
  CHECK(counts->written_bytes == 333);
  // Not the line that ends so.
  CHECK(parse_kernel_counts("cancelled_write_bytes: 4\nread_bytes: 1\nwrite_bytes: 2")
            ->written_bytes == 2);
  CHECK_FALSE(parse_kernel_counts(""));
  CHECK_FALSE(parse_kernel_counts("read_bytes: 1\n"));
  CHECK_FALSE(parse_kernel_counts("read_bytes: x\nwrite_bytes: 2\n"));
  CHECK_FALSE(parse_kernel_counts("read_bytes: 99999999999999999999999\nwrite_bytes: 2\n"));
}

TEST_CASE("aims: the worst row counts, and one that no row is about is neither met nor missed") {
  const auto good = row_of({{way::ours, 1.0}, {way::phased, 1.7}, {way::sync, 1.9}}, 0.95,
                           gpu::bound_by::products);
  const auto slow = row_of({{way::ours, 1.0}, {way::phased, 1.5}, {way::saving, 1.01}}, 0.88,
                           gpu::bound_by::disk);
  const auto find_aim = [](const std::vector<aim>& all, double bound, const std::string& unit) {
    for (const auto& a : all)
      if (a.bound == bound && a.unit == unit) return a;
    FAIL("there is no such aim");
    return aim{};
  };
  const auto one = aims_of({good}), both = aims_of({good, slow});
  CHECK(find_aim(one, 0.85, "of the limit").met());
  CHECK_FALSE(find_aim(one, 0.90, "of the limit").measured);
  CHECK(find_aim(one, 1.6, "times the speed of phased").met());
  CHECK(find_aim(both, 0.85, "of the limit").met());
  CHECK(*find_aim(both, 0.85, "of the limit").measured == doctest::Approx(0.88));
  CHECK_FALSE(find_aim(both, 0.90, "of the limit").met());
  CHECK(find_aim(one, 0.80, "of the least-bytes limit").met());
  CHECK(*find_aim(both, 0.80, "of the least-bytes limit").measured == doctest::Approx(0.9 * 0.88));
  CHECK_FALSE(find_aim(both, 0.80, "of the least-bytes limit").met());
  CHECK_FALSE(find_aim(both, 1.6, "times the speed of phased").met());
  CHECK(find_aim(both, 1.8, "times the speed of sync").met());
  CHECK(find_aim(both, 0.02, "of a step").met());
  CHECK_FALSE(find_aim(both, 1, "MiB written for each").met());
  CHECK_FALSE(find_aim(both, 1.05, "times inmem").measured);
  const auto told = text(both);
  CHECK(told.find("missed") != std::string::npos);
  CHECK(told.find("no row is about it") != std::string::npos);
  CHECK(json(both).size() == both.size());
  CHECK(json(one)[1]["met"].is_null());
}

TEST_CASE("largest: one layer more does not fit, more memory is more layers, swapped more yet") {
  scratch dir;
  auto plan = plan_of_few_layers(dir);
  constexpr uint64_t room = uint64_t{1} << 40;
  const auto sizes = [&](way w, int64_t layers) {
    auto with = plan;
    with.layers = layers;
    auto o = options_of(with);
    auto where = residency_of(w, with, o);
    if (!where) return ~uint64_t{0};
    o.shape.where = *where;
    return gpu::plan_stage(o.model, o.shape).total();
  };
  int64_t before = 0;
  for (const uint64_t mib : {160, 320}) {
    plan.host_bytes = mib << 20;
    const auto held = most_layers_that_fit(plan, way::inmem, room);
    const auto moved = most_layers_that_fit(plan, way::ours, room);
    CHECK(held > before);
    CHECK(moved > held);
    for (const auto& [w, most] : {std::pair(way::inmem, held), std::pair(way::ours, moved)}) {
      CHECK(sizes(w, most) <= plan.host_bytes);
      if (most < deepest_layers) CHECK(sizes(w, most + 1) > plan.host_bytes);
    }
    before = held;
  }
  // A drive that is full bounds it as well.
  CHECK(most_layers_that_fit(plan, way::ours, uint64_t{100} << 20) <
        most_layers_that_fit(plan, way::ours, room));
  plan.host_bytes = 1 << 20;
  CHECK(most_layers_that_fit(plan, way::ours, room) == 0);
}

TEST_CASE("largest: what is planned to fit makes its two steps") {
  scratch dir;
  auto plan = plan_of_few_layers(dir);
  plan.model = "micro";
  plan.host_bytes = 8 << 20;
  const auto row = measure_largest(plan);
  REQUIRE_MESSAGE(row, (row ? std::string() : render(row.error())));
  CHECK(row->in_memory.layers > 0);
  CHECK(row->in_memory.parameters > 0);
  CHECK(row->in_memory.memory_bytes <= plan.host_bytes);
  CHECK(row->in_memory.step_s > 0);
}

TEST_CASE("bench swap: a grid's rows, the checkpoints' way and the aims, as JSON") {
  scratch dir;
  const auto done = bench_swap(
      dir, "--model tiny --tokens 16 --rounds 1 --steps 1 --ways ours,phased --checkpoints --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  REQUIRE(j["rows"].size() == 1);
  const auto& row = j["rows"][0];
  REQUIRE(row["ways"].size() == 3);
  std::map<std::string, nlohmann::json> by_way;
  for (const auto& w : row["ways"]) by_way[w["way"]] = w;
  CHECK(by_way["phased"]["written_bytes"] > by_way["ours"]["written_bytes"]);
  const uint64_t saved = by_way["saving"]["written_bytes"],
                 without = by_way["ours"]["written_bytes"];
  CHECK(saved > without);
  CHECK(saved <= without + (uint64_t{1} << 20));
  CHECK(row["processor_flops_s"] >= row["flops_s"]);
  CHECK(row["processor_updates_s"] >= row["updates_s"]);
  CHECK(row["processor_sum_bytes_s"] > 0);
  for (const auto& w : row["ways"]) {
    const double limit_s = w["limit_s"], expected_s = w["expected_s"];
    CHECK(w["processors_s"] > 0);
    for (const char* part : {"compute_s", "disk_s", "processors_s"})
      CHECK(w[part].get<double>() <= limit_s * (1 + 1e-9));
    CHECK(limit_s <= expected_s * (1 + 1e-9));
    CHECK(w["least_s"] > 0);
    CHECK(w["least_s"].get<double>() <= limit_s * (1 + 1e-9));
  }
  CHECK(j["aims"].size() == 11);
  for (const auto& entry : std::filesystem::directory_iterator(dir.path))
    CHECK(entry.path().filename().string().find("troupe-swap-") == std::string::npos);
}

TEST_CASE("bench swap: what cannot be asked for is refused, and nothing is left behind") {
  scratch dir;
  for (const char* wrong :
       {"--tokens 0", "--tokens x", "--ways never", "--host-mib 1,2", "--host-mib x", "--largest",
        "--largest --host-mib 100 --tokens 16,32", "--largest --host-mib 0 --tokens 16",
        "--model tiny --config job.toml", "--config job.toml --dtype f32",
        "--config job.toml --clip 1", "--config job.toml --keep-activations",
        "--model tiny --sweep activations", "--model tiny --ways planned", "--sweep rates",
        "--device abacus", "--device abacus --largest --host-mib 100 --tokens 16"}) {
    CAPTURE(wrong);
    CHECK(bench_swap(dir, wrong).code == 64);
  }
  CHECK(bench_swap(dir, "--config absent.toml").code == 66);
  const auto no_gpu = bench_swap(dir, "--model tiny --tokens 16 --device cuda:4000");
  CHECK(no_gpu.code != 0);
  CHECK(no_gpu.code != 64);
  CHECK(no_gpu.out.empty());
  CHECK(no_gpu.talk.find("error: ") != std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(dir.path))
    CHECK(entry.path().filename().string().find("troupe-swap-") == std::string::npos);
}

TEST_CASE("bench swap: what layers keep is swept, with the same state each time") {
  scratch dir;
  const auto sweep = [&](const char* host_mib) {
    return bench_swap(dir, std::string("--model tiny --sweep activations --tokens 64 --rounds 1 "
                                       "--steps 1 --json --host-mib ") +
                               host_mib);
  };
  const auto done = sweep("80");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto row = nlohmann::json::parse(done.out)["rows"][0];
  std::map<std::string, nlohmann::json> by_way;
  for (const auto& w : row["ways"]) by_way[w["way"]] = w;
  REQUIRE(by_way.size() == 5);
  for (const auto& [name, w] : by_way)  // with so much memory all else is in it
    CHECK_MESSAGE((w["skipped"] != "") == (name == "spill"), name);
  CHECK(by_way["recompute"]["keep_layers"] == 0);
  CHECK(by_way["recompute"]["half_layers"] == 0);
  CHECK(by_way["half"]["half_layers"] == by_way["keep"]["keep_layers"]);
  CHECK(by_way["keep"]["memory_bytes"] > by_way["recompute"]["memory_bytes"]);
  CHECK(by_way["keep"]["compute_s"] < by_way["half"]["compute_s"]);
  CHECK(by_way["half"]["compute_s"] < by_way["recompute"]["compute_s"]);
  CHECK(by_way["planned"]["memory_bytes"] <= uint64_t{80} << 20);
  const auto narrow = sweep("72");
  REQUIRE_MESSAGE(narrow.code == 0, narrow.talk);
  const auto narrow_row = nlohmann::json::parse(narrow.out)["rows"][0];
  CHECK(narrow_row["ways"].size() == 5);
  for (const auto& w : narrow_row["ways"])
    CHECK((w["skipped"] != "") == (w["way"] == "keep" || w["way"] == "spill"));
  const auto enough = sweep("75");
  REQUIRE_MESSAGE(enough.code == 0, enough.talk);
  const auto enough_row = nlohmann::json::parse(enough.out)["rows"][0];
  for (const auto& w : enough_row["ways"]) {
    CHECK(w["skipped"] == "");
    by_way[w["way"]] = w;
  }
  const auto spilt = by_way["spill"], kept = by_way["keep"];
  CHECK(spilt["spill_layers"] == kept["keep_layers"]);
  CHECK(spilt["compute_s"] == kept["compute_s"]);
  CHECK(spilt["read_bytes"] > kept["read_bytes"]);
  CHECK(spilt["written_bytes"] > kept["written_bytes"]);
  CHECK(spilt["disk_bytes"] > kept["disk_bytes"]);
  CHECK(sweep("20").code == 78);
}

TEST_CASE("bench swap: a job's model is trained as the job has it") {
  scratch dir;
  std::ofstream(dir / "text.txt") << std::string(4096, 'a');
  std::ofstream(dir / "job.toml") << "[job]\nname = \"small\"\n"
                                     "[model]\nfamily = \"gpt2\"\nlayers = 2\nhidden = 64\n"
                                     "heads = 2\ndtype = \"f32\"\nrecompute = true\n"
                                     "[data]\npath = \"text.txt\"\n"
                                     "[train]\nseq_len = 32\nclip_norm = 0.5\n";
  const auto done =
      bench_swap(dir, "--config job.toml --tokens 16 --rounds 1 --steps 1 --ways ours --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto row = nlohmann::json::parse(done.out)["rows"][0];
  CHECK(row["model"] == "small");
  CHECK(row["dtype"] == "f32");
  CHECK(row["clip_norm"] == 0.5);
}
