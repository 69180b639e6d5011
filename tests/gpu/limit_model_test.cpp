// The roofline of a step that swaps, alone and against what LoHan's authors measured.
#include "gpu/swap/limit_model.hpp"

#include <algorithm>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/swap/step_traffic.hpp"
#include "io/perf/csv.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/model_samples.hpp"

using namespace troupe;
using namespace troupe::gpu;

namespace {

constexpr machine_rates machine{100, 10, 8, 4, 0, 50};

const std::string heading =
    "name,parameters,layers,hidden,seq,batch,flops_s,pcie_bytes_s,read_bytes_s,write_bytes_s,"
    "duplex,adam_parameters_s,state_bytes,recompute,measured_s\n";

/// A run of LoHan's artifact: 13B on one GPU with so many drives, its TFLOPS with the recomputed
/// forward counted.
struct lohan_run {
  int drives, batch;
  double tflops;
};

// Raw data of LoHan's artifact (2 x Xeon 5320, RTX 4090, P5510 drives, 1,024 tokens a sequence).
constexpr lohan_run lohan_13b[] = {
    {12, 8, 42.8},  {12, 16, 84.3}, {12, 32, 143.1}, {12, 64, 155.8}, {12, 128, 153.8},
    {1, 32, 37.5},  {2, 32, 64.3},  {3, 32, 81.1},   {6, 32, 121.7},  {1, 48, 53.1},
    {2, 48, 89.7},  {3, 48, 121.7}, {6, 48, 146.3},  {12, 48, 153.9}, {1, 64, 70.3},
    {2, 64, 111.7}, {3, 64, 136.3}, {6, 64, 151.5},
};

/// 150 TFLOP/s sustained, PCIe of 21 GB/s, drives of 6.5 and 3.4 GB/s up to 32 and 28, read and
/// written in turn by one thread.
published_run as_published(const lohan_run& r) {
  published_run out;
  out.name = fmt::format("13B, {} drives, batch {}", r.drives, r.batch);
  out.parameters = 12.85e9;
  out.layers = 40, out.hidden = 5120, out.seq = 1024, out.batch = r.batch;
  out.rates = {150e12, 21e9,  std::min(6.5e9 * r.drives, 32e9), std::min(3.4e9 * r.drives, 28e9),
               0,      14.6e9};
  const double tokens = out.seq * out.batch;
  const double flops = 2 * out.parameters * tokens + 4 * out.seq * out.hidden * out.layers * tokens;
  out.measured_s = 4 * flops / (r.tflops * 1e12);
  return out;
}

double predicted_s(const published_run& run) {
  double out = 0;
  for (const auto& phase : phases_of(run)) out += limit_of(phase, run.rates).seconds;
  return out;
}

}  // namespace

TEST_CASE("ROOF-1: the slowest part bounds a phase, and is named") {
  CHECK(limit_of({1000, 10, 8, 4, 50}, machine).part == bound_by::products);
  CHECK(limit_of({1000, 10, 8, 4, 50}, machine).seconds == 10);
  CHECK(limit_of({0, 100, 8, 4, 50}, machine).part == bound_by::link);
  CHECK(limit_of({0, 0, 80, 4, 50}, machine).part == bound_by::disk);
  CHECK(limit_of({0, 0, 0, 0, 500}, machine).part == bound_by::updates);
  auto without_link = machine;
  without_link.link_bytes_s = 0;
  CHECK(limit_of({0, 100, 0, 0, 0}, without_link).seconds == 0);
  CHECK(to_string(bound_by::disk) == "disk");
}

TEST_CASE("ROOF-1: reads and writes of a drive take turns, or not, or something between") {
  auto rates = machine;
  CHECK(disk_seconds(80, 40, rates) == 20);
  rates.duplex = 1;
  CHECK(disk_seconds(80, 40, rates) == 10);
  CHECK(disk_seconds(80, 60, rates) == 15);
  rates.duplex = 0.5;
  CHECK(disk_seconds(80, 40, rates) == 15);
}

TEST_CASE("ROOF-2: a step as a whole is bounded by no more than its phases one after the other") {
  for (const auto& r : lohan_13b) {
    const auto run = as_published(r);
    phase_work whole;
    for (const auto& phase : phases_of(run)) whole += phase;
    CHECK(limit_of(whole, run.rates).seconds <= predicted_s(run) * (1 + 1e-12));
  }
}

TEST_CASE("ROOF-3: processors that make products, updates and sums are busy for all three") {
  auto shared = machine;
  shared.processors = {100, 200, 20};  // updates by twice the threads that they have alone
  CHECK(seconds_of_processors({1000, 0, 0, 0, 50, 40}, shared) == 10 + 0.25 + 2);
  auto limit = limit_of({1000, 0, 0, 0, 50, 40}, shared);
  CHECK(limit.part == bound_by::processors);
  CHECK(limit.seconds == 12.25);
  CHECK(limit_of({1000, 0, 0, 0, 0, 0}, shared).part ==
        bound_by::products);  // which alone explain it
  CHECK(limit_of({1000, 0, 104, 0, 50, 40}, shared).part == bound_by::disk);
  CHECK(limit_of({0, 0, 0, 0, 500, 40}, shared).part == bound_by::updates);
  CHECK(to_string(bound_by::processors) == "processors");
  // A device makes products and updates: the host's processors have the sums alone.
  shared.processors = {0, 0, 20};
  CHECK(limit_of({1000, 0, 0, 0, 50, 40}, shared).part == bound_by::products);
  limit = limit_of({1000, 0, 0, 0, 50, 400}, shared);
  CHECK(limit.part == bound_by::processors);
  CHECK(limit.seconds == 20);
  // Where it is not known what they sum, nothing is said of it.
  CHECK(limit_of({1000, 0, 0, 0, 50, 1e9}, machine).seconds == 10);
}

TEST_CASE("ROOF-1 ROOF-2 ROOF-3: of any work, on any machine") {
  std::mt19937 random(1);
  const auto some = [&](double most) {
    return random() % 4 == 0 ? 0 : std::uniform_real_distribution<double>(0.1, most)(random);
  };
  const auto any_work = [&]() -> phase_work {
    return {some(1000), some(100), some(80), some(40), some(500), some(120)};
  };
  const auto no_longer = [](double a, double b) { return a <= b * (1 + 1e-12); };
  for (int i = 0; i < 10'000; ++i) {
    const machine_rates rates{
        some(100), some(10), some(8), some(4), some(1), some(50), {some(100), some(90), some(20)}};
    const auto first = any_work(), second = any_work();
    const double one = limit_of(first, rates).seconds, other = limit_of(second, rates).seconds;
    auto both = first;
    both += second;
    CHECK(no_longer(one, limit_of(both, rates).seconds));          // ROOF-1
    CHECK(no_longer(limit_of(both, rates).seconds, one + other));  // ROOF-2
    auto apart = rates;
    apart.processors = {};
    CHECK(no_longer(limit_of(first, apart).seconds, one));  // ROOF-3
    for (double* rate : {&apart.flops_s, &apart.link_bytes_s, &apart.read_bytes_s,
                         &apart.write_bytes_s, &apart.updates_s}) {
      const double before = limit_of(first, apart).seconds;
      *rate /= 2;
      CHECK(no_longer(before, limit_of(first, apart).seconds));
    }
    for (double processor_rates::*rate :
         {&processor_rates::flops_s, &processor_rates::updates_s, &processor_rates::sum_bytes_s}) {
      auto slower = rates;
      slower.processors.*rate /= 2;
      CHECK(no_longer(one, limit_of(first, slower).seconds));
    }
  }
}

TEST_CASE("SWP-5: what a step sums is all that it moves, or what is written of the state alone") {
  auto model = testing::tiny_gpt2();
  model.layers = 5;
  auto shape = whole_model(model, 2, 7, dtype::bf16);
  residency_budget steps{0, false, 1};
  for (const bool spills : {false, true})
    for (const bool measures : {false, true}) {
      if (spills) shape.activations.assign(5, activation_choice::spill);
      steps.measures = measures;
      shape.where = least_residency(model, shape, steps);
      steps.verifies = true;
      const auto all = traffic_of_step(model, shape, steps);
      for (const auto& phase : {all.forward, all.backward, all.whole()})
        CHECK(phase.summed_bytes == phase.read_bytes + phase.written_bytes);
      steps.verifies = false;
      const auto less = traffic_of_step(model, shape, steps);
      CHECK(less.whole().written_bytes == all.whole().written_bytes);
      CHECK(less.forward.summed_bytes == 0);
      CHECK((less.forward.written_bytes > 0) == spills);
      CHECK(less.backward.summed_bytes == less.backward.written_bytes);
      CHECK(work_of_step(all, 300, 70, 7).whole().summed_bytes ==
            static_cast<double>(all.whole().summed_bytes));
    }
}

TEST_CASE("limit: passes made twice, and what is computed again, are counted") {
  step_traffic traffic{{10, 0}, {30, 20}, 2, 0};
  const auto work = work_of_step(traffic, 300, 70, 7);
  CHECK(work.forward.flops == 200);
  CHECK(work.backward.flops == 400 + 140);
  CHECK(work.whole().read_bytes == 40);
  CHECK(work.whole().written_bytes == 20);
  CHECK(work.whole().updates == 7);
  CHECK(work_of_step(traffic, 300, 0, 7).backward.flops == 400);
}

TEST_CASE("SWP-13: what replicas gather is counted as often as a step does") {
  constexpr uint64_t layers = 5, frames = 2;
  auto model = testing::tiny_gpt2();
  model.layers = layers;
  auto shape = whole_model(model, 2, 7, dtype::bf16);
  residency_budget steps{0, false, 1};
  CHECK(traffic_of_step(model, shape, steps).gathered_bytes == 0);
  shape.replica.ranks = 2;
  uint64_t of_layer = 0, others = 0;
  for (const auto& chunk : stage_chunks(model, shape)) {
    const auto elements = static_cast<uint64_t>(slice_of(chunk.count, shape.replica).whole);
    const uint64_t bytes = elements * size_of(shape.compute);
    if (chunk.layer >= 0)
      of_layer = bytes;
    else
      others += bytes;
  }
  CHECK(traffic_of_step(model, shape, steps).gathered_bytes == others + layers * of_layer);
  shape.where = least_residency(model, shape, steps);
  // Forward reads all, and backward those that are in no frame any more.
  CHECK(traffic_of_step(model, shape, steps).gathered_bytes ==
        others + (2 * layers - frames) * of_layer);
  // The second pass forward finds those that backward had last.
  steps.clips = true;
  CHECK(update_order_of(shape.where, steps.clips) == update_order::twice);
  CHECK(traffic_of_step(model, shape, steps).gathered_bytes ==
        others + (4 * layers - 3 * frames) * of_layer);
}

TEST_CASE("limit: of LoHan's 18 runs none is quicker than it by more than 5 %, the mean is 0.90") {
  double sum = 0;
  for (const auto& r : lohan_13b) {
    const auto run = as_published(r);
    const double ratio = predicted_s(run) / run.measured_s;
    CAPTURE(run.name);
    CHECK(ratio <= 1.05);
    sum += ratio;
  }
  CHECK(sum / std::size(lohan_13b) == doctest::Approx(0.90).epsilon(0.05));
}

TEST_CASE(
    "limit: a table of runs is read by its heading, and its faults are told with their line") {
  const auto run = as_published(lohan_13b[0]);
  const auto line = [&](const std::string& name, const std::string& duplex) {
    return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", name, run.parameters,
                       run.layers, run.hidden, run.seq, run.batch, run.rates.flops_s,
                       run.rates.link_bytes_s, run.rates.read_bytes_s, run.rates.write_bytes_s,
                       duplex, run.rates.updates_s, run.state_bytes, run.recompute, run.measured_s);
  };
  const auto runs =
      parse_published_runs(heading + line("a", "0") + "\n" + line("\"b, c\"", "1"), "r.csv");
  REQUIRE(runs);
  REQUIRE(runs->size() == 2);
  CHECK(runs->front().name == "a");
  CHECK(predicted_s(runs->front()) == doctest::Approx(predicted_s(run)));
  CHECK(runs->back().name == "b, c");
  CHECK(runs->back().rates.duplex == 1);
  CHECK(runs->back().rates.processors.flops_s == 0);  // products are a GPU's
  const auto refused = [](const std::string& table) {
    return parse_published_runs(table, "r.csv").error();
  };
  using io::perf::bad_csv;
  CHECK(is_error(refused("name,parameters\n"), bad_csv, "r.csv:1:", "layers"));
  CHECK(is_error(refused(heading + line("a", "x")), bad_csv, "r.csv:2:", "duplex"));
  CHECK(is_error(refused(heading + line("a", "2")), bad_csv, "r.csv:2:"));
  CHECK(is_error(refused(heading + line("a", "0") + "a,1,2\n"), bad_csv, "r.csv:3:"));
  CHECK(is_error(refused(heading + line("a", "nan")), bad_csv, "r.csv:2:"));
}
