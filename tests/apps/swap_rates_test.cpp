// A machine's paces: with the threads that a step has, and what was reached before counts where it
// is slower for a moment.
#include "apps/swap/rates.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/train/layer_paces.hpp"
#include "actors/train/machine.hpp"
#include "actors/train/swap_forecast.hpp"
#include "actors/train/swap_ranks.hpp"
#include "gpu/device.hpp"
#include "gpu/swap/limit_model.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"
#include "io/machine/facts.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using apps::swap::best_so_far;
using apps::swap::paces;

namespace {

/// The host, which notes with how many threads streams are made.
struct noting_device final : gpu::device {
  std::unique_ptr<gpu::device> host = gpu::make_host_device(2);
  std::map<std::string, int> threads;

  gpu::device_facts facts() const override { return host->facts(); }
  result<std::unique_ptr<gpu::stream>> make_stream(const gpu::stream_options& o) override {
    threads[o.name] = o.threads;
    return host->make_stream(o);
  }
  result<gpu::buffer> allocate(size_t bytes) override { return host->allocate(bytes); }
  bool host_accessible() const noexcept override { return true; }
  gpu::ops& ops() noexcept override { return host->ops(); }
};

}  // namespace

TEST_CASE("swap: products are measured with a rank's threads, updates with the swapper's one") {
  noting_device device;
  train::engine_options o;
  o.model = model_config::of(model_family::gpt2);
  o.model.hidden = 32;
  o.model.heads = o.model.kv_heads = 2;
  o.model.head_width = 16;
  o.model.vocab = 100;
  o.model.ffn = 64;
  o.model.layers = 3;
  o.model.max_positions = 16;
  o.shape.micro_batch = 1;
  o.shape.seq = 16;
  o.threads = 2;
  const auto measured = apps::swap::measure_paces(o, device);
  REQUIRE(measured);
  CHECK(measured->flops_s > 0);
  CHECK(measured->updates_s > 0);
  CHECK(measured->sum_bytes_s > 0);
  train::pace_measuring without;
  without.sums = false;
  const auto less = train::measure_paces(o, device, without);
  REQUIRE(less);
  CHECK(less->sum_bytes_s == 0);
  CHECK(device.threads.at("compute") == 2);
  CHECK(device.threads.at("update") == 1);
}

TEST_CASE("paces: what a machine does in the long run is the mean of tries, stops and all") {
  // Every 8 ms it stands for 4: a try of 3 ms is through without a stop more often than not.
  const std::vector<double> seconds{0.003, 0.007, 0.003, 0.003, 0.007, 0.003, 0.007, 0.003, 0.003};
  const auto tried = train::summed_up(seconds);
  CHECK(tried.best == 0.003);
  CHECK(tried.mean == doctest::Approx(0.039 / 9));
}

TEST_CASE("swap: of one layer's paces the best so far counts, each by itself") {
  scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const paces first{60e9, 1e9, "gpt2 2048"};
  CHECK(best_so_far(first, store).flops_s == 60e9);
  const auto starved = best_so_far({20e9, 2e9, "gpt2 2048"}, store);
  CHECK(starved.flops_s == 60e9);
  CHECK(starved.updates_s == 2e9);
  CHECK(best_so_far({10e9, 1e9, "gpt2 2048"}, store).updates_s == 2e9);
  const auto other = best_so_far({20e9, 1e9, "gpt2 768"}, store);  // of another layer
  CHECK(other.flops_s == 20e9);
  CHECK(other.updates_s == 1e9);
  const auto summed = best_so_far({20e9, 1e9, "gpt2 768", 1, 5e9}, store);  // new since it was kept
  CHECK(summed.sum_bytes_s == 5e9);
  CHECK(best_so_far({20e9, 1e9, "gpt2 768", 1, 4e9}, store).sum_bytes_s == 5e9);
}

TEST_CASE("swap: what all processors do is what the cores beside a layer's threads could, too") {
  const paces measured{60e9, 1e9, "gpt2 768", 1, 20e9};
  struct row {
    train::worker_cores on;
    double flops_s, updates_s, all_flops_s, all_updates_s, all_sums_s;
  };
  for (const auto& r : {row{{1, 2, 2}, 60e9, 1e9, 60e9, 2e9, 40e9},
                        {{1, 1, 2}, 60e9, 1e9, 120e9, 2e9, 40e9},  // the other core is left
                        {{2, 1, 2}, 120e9, 2e9, 120e9, 2e9, 40e9},
                        {{1, 4, 2}, 60e9, 1e9, 60e9, 2e9, 40e9},  // threads take turns
                        {{2, 2, 8}, 120e9, 2e9, 240e9, 8e9, 160e9}}) {
    gpu::machine_rates rates;
    rates.read_bytes_s = 1e9;
    train::set_paces(rates, measured, r.on);
    CHECK(rates.read_bytes_s == 1e9);
    CHECK(rates.flops_s == r.flops_s);
    CHECK(rates.updates_s == r.updates_s);
    CHECK(rates.processors.flops_s == r.all_flops_s);
    CHECK(rates.processors.updates_s == r.all_updates_s);
    CHECK(rates.processors.sum_bytes_s == r.all_sums_s);
  }
}

TEST_CASE("swap: what bounds a step is named, and by which rates") {
  train::swap_forecast f;
  f.work.backward = {100e9, 0, 0, 0, 1e9, 20e9};
  gpu::machine_rates rates{100e9, 0, 1e9, 1e9, 0, 1e9};
  CHECK(apps::swap::limit_text(f, rates).find("1 s at least, bound by products;") !=
        std::string::npos);
  rates.processors = {100e9, 2e9, 40e9};
  const auto told = apps::swap::limit_text(f, rates);
  CHECK(told.find("2 s at least, bound by processors; 2 s expected") != std::string::npos);
  CHECK(told.find("sums 40.0 GB/s") != std::string::npos);
}

TEST_CASE("swap: plan tells the rates of all processors beside the limit that they make") {
  scratch dir;
  std::ofstream(dir / "text.txt") << std::string(4096, 'a');
  const std::string text =
      "[model]\nlayers = 8\nheads = 2\nhidden = 128\nvocab = 500\n[data]\npath = \"text.txt\"\n"
      "[train]\nbatch = 2\nmicro_batch = 2\nseq_len = 32\nclip_norm = 0\n"
      "[cluster]\ndevice = \"host\"\nthreads = 1\n[swap]\ndir = \"swap\"\n";
  std::ofstream(dir / "job.toml") << text;
  const auto job = config::parse(text, "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  const auto plan = train::make_plan(*job);
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  const auto floor = train::swap_floor_bytes(*plan, 1);
  const auto done = run_in(dir.path, "XDG_CACHE_HOME=cache " TROUPE_PROGRAM
                                     " plan job.toml --json --set swap.host_bytes=" +
                                         std::to_string(floor));
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto told = nlohmann::json::parse(done.out).at("swap");
  const auto& rates = told.at("rates");
  CHECK(rates.at("processor_flops_s") >= rates.at("flops_s"));
  CHECK(rates.at("processor_update_parameters_s") >= rates.at("update_parameters_s"));
  CHECK(rates.at("processor_sum_bytes_s") > 0);
  CHECK(told.at("limit_s") >= told.at("least_limit_s"));
  CHECK(told.at("expected_s").get<double>() >= told.at("limit_s").get<double>() * (1 - 1e-9));
  const std::string by = told.at("bound_by");
  CHECK((by == "products" || by == "disk" || by == "updates" || by == "processors"));
}

TEST_CASE("swap: a kept pace that cannot be is not believed") {
  scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  for (const nlohmann::json& wrong : {nlohmann::json(1e30), nlohmann::json("fast")}) {
    store.keep("swap-paces", {{"of", "a"}, {"flops_s", wrong}, {"updates_s", wrong}});
    const auto told = best_so_far({20e9, 1e9, "a"}, store);
    CHECK(told.flops_s == 20e9);
    CHECK(told.updates_s == 1e9);
  }
  store.keep("swap-paces", nlohmann::json::array({1, 2}));
  CHECK(best_so_far({20e9, 1e9, "a"}, store).flops_s == 20e9);
}

TEST_CASE(
    "swap: whatever a file of kept paces holds, no pace is impossible or less than measured") {
  scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  const paces now{20e9, 1e9, "a", 1, 5e9};
  best_so_far({60e9, 3e9, "a", 1, 2e9}, store);
  const auto file = dir / "here/swap-paces.json";
  const auto text = io::read_file(file, io::most_fact_bytes);
  REQUIRE(text);
  CHECK(best_so_far(now, store).flops_s == 60e9);
  const std::vector<std::string> words{"-", "1e400", "null", "[",    "{",    "\"",
                                       "9", "1e18",  "true", "1e17", "\xff", ","};
  const std::string number = "60000000000.0";
  REQUIRE(text->find(number) != std::string::npos);
  std::mt19937_64 random(17);
  for (int i = 0; i < 150; ++i) {  // each is synced
    auto wrong = *text;
    const auto& word = words[random() % words.size()];
    if (random() % 2 == 0) {
      wrong.replace(wrong.find(number), number.size(), word);
    } else {
      const auto at = random() % wrong.size();
      wrong.replace(at, random() % 2 * word.size(), word);
      if (random() % 8 == 0) wrong.resize(at + 1);
    }
    std::ofstream(file, std::ios::binary) << wrong;
    CAPTURE(wrong);
    const auto told = best_so_far(now, store);
    CHECK((told.flops_s >= now.flops_s && told.flops_s < 1e18));
    CHECK((told.updates_s >= now.updates_s && told.updates_s < 1e18));
    CHECK((told.sum_bytes_s >= now.sum_bytes_s && told.sum_bytes_s < 1e18));
    CHECK(told.of == now.of);
  }
}

TEST_CASE("swap: what layers have no room for is said of a GPU's memory where ranks are on GPUs") {
  config::job job;
  job.swap.keep_layers = 12;
  train::swap_forecast f;
  f.kept.layers[static_cast<size_t>(gpu::activation_choice::recompute)] = 12;
  f.kept.asked[static_cast<size_t>(gpu::activation_choice::keep)] = 12;
  constexpr const char *of_host = "have no room in swap.host_bytes",
                       *of_device = "have no room in swap.device_bytes";
  const auto says = [&](const char* words) {
    return apps::swap::forecast_text(f, job).find(words) != std::string::npos;
  };
  CHECK(says(of_host));
  CHECK_FALSE(says(of_device));
  f.of_gpu.device_bytes = uint64_t{1} << 30;
  CHECK(says(of_device));
  CHECK_FALSE(says(of_host));
}

TEST_CASE("swap: that layers have no room for what they are to keep is a remark, for the log too") {
  const auto job = config::parse(
      "[model]\nlayers = 12\nheads = 4\nhidden = 256\nvocab = 1000\n[data]\npath = \"x.txt\"\n"
      "[train]\nbatch = 4\nmicro_batch = 2\nseq_len = 128\n[cluster]\nthreads = 1\n"
      "[swap]\ndir = \"/swap\"\nclip = \"twice\"\n",
      "test");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  auto plan = train::make_plan(*job);
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  plan->job.swap.keep_layers = plan->job.swap.half_layers = 0;
  plan->job.swap.spill_layers = 12;
  std::vector<std::string> told;
  const auto settle = [&] {
    return apps::swap::settle_by_rates(*plan, [&](const auto& text) { told.push_back(text); });
  };
  const auto floor =
      static_cast<int64_t>(train::swap_floor_bytes(*plan, train::threads_here(plan->job.cluster)));
  // Where all but activations is in memory: nothing is measured.
  plan->job.swap.host_bytes = floor;
  for (int64_t mib = 2; mib < 1000 && train::forecast_swap(*plan); mib += 2)
    plan->job.swap.host_bytes = floor + (mib << 20);
  REQUIRE_FALSE(train::forecast_swap(*plan));
  CHECK_FALSE(settle());
  REQUIRE(told.size() == 1);
  CHECK(told[0].starts_with("warning: swap.keep_layers = 0"));
  CHECK(told[0].find("have no room in swap.host_bytes") != std::string::npos);
  plan->job.swap.host_bytes = floor + (int64_t{1000} << 20);
  CHECK_FALSE(settle());
  CHECK(told.size() == 1);
}
