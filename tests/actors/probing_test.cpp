// What a node says of its machine: kept, measured in turn, or done without; and as a message.
#include "actors/cluster/probing.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>

#include <doctest/doctest.h>
#include <flatbuffers/flatbuffers.h>

#include "actors/base/hw_message.hpp"
#include "actors/train/roofline_policy.hpp"
#include "io/disk/calibrate.hpp"
#include "io/perf/hw_reader.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::cluster;
using io::perf::hw_profile;
namespace fs = std::filesystem;

namespace {

/// A machine that is measured by a number that the test gives.
struct probed_once {
  scratch folder;
  machine_probing how;
  int measured = 0;
  std::string trouble;
  bool has_all_rates = false;

  probed_once() {
    how.store = {folder / "cache", "0123456789abcdef", "1.2.3", 1'800'000'000};
    how.measure = [this](hw_profile& into) {
      ++measured;
      into.gemm_gflop_s = 100 * measured;
      if (has_all_rates) into.gemm_bf16_gflop_s = into.adamw_mparam_s = 1;
      return trouble.empty() ? gpu::predict::probe_troubles{}
                             : gpu::predict::probe_troubles{trouble};
    };
  }
  hw_profile found() const { return probe_this_machine(how); }
};

/// As whoever reads a message has it.
hw_profile as_read(const fbs::HwProfileT& m) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fbs::HwProfile::Pack(builder, &m));
  return profile_in(*flatbuffers::GetRoot<fbs::HwProfile>(builder.GetBufferPointer()));
}

fbs::HwProfileT with_field(const std::string& name, double number, const std::string& word) {
  fbs::HwProfileT m;
  auto& f = *m.fields.emplace_back(std::make_unique<fbs::HwFieldT>());
  f.name = name;
  f.number = number;
  f.word = word;
  return m;
}

}  // namespace

TEST_CASE("MPR-1: nodes of one machine and later starts pay nothing for what one has measured") {
  probed_once f;
  const auto first = f.found();
  CHECK(first.gemm_gflop_s == 100);
  CHECK(first.kernel.has_value());  // what the machine is, too
  CHECK(f.found().gemm_gflop_s == 100);
  CHECK(f.measured == 1);
  f.how.full = true;  // a quick look does not stand for it
  CHECK(f.found().gemm_gflop_s == 200);
  f.how.full = false;
  CHECK(f.found().gemm_gflop_s == 200);
  CHECK(f.measured == 2);
}

TEST_CASE("MPR-1: what was cut short is not kept, and nothing is measured that cannot be kept") {
  probed_once f;
  std::stop_source over;
  f.how.stop = over.get_token();
  const auto whole = f.how.measure;
  f.how.measure = [&](hw_profile& into) {
    over.request_stop();
    return whole(into);
  };
  f.found();
  CHECK(f.measured == 1);
  f.how.stop = {};
  f.how.measure = whole;
  CHECK(f.found().gemm_gflop_s == 200);
  probed_once nowhere;
  std::ofstream(nowhere.folder / "cache") << "a file";
  CHECK_FALSE(nowhere.found().gemm_gflop_s);
  CHECK(nowhere.measured == 0);
}

TEST_CASE("MPR-1: while another process measures this machine nothing is measured beside it") {
  probed_once f;
  const auto turn = io::perf::lock_probes(f.how.store, std::chrono::milliseconds(0));
  REQUIRE(turn);
  const auto found = f.found();
  CHECK_FALSE(found.gemm_gflop_s);
  CHECK(found.kernel.has_value());
  CHECK(f.measured == 0);
}

TEST_CASE("MPR-2: a person's probe of the whole stands for a node's, and is not replaced by one") {
  probed_once f;
  auto whole = host_probe_key(false);
  whole.host_only = false;
  whole.disk = io::perf::device_under(".");
  hw_profile by_person;
  by_person.gemm_gflop_s = 7;
  by_person.disk_read_gb_s = 2;
  io::perf::keep_probes(f.how.store, host_probe_key(false), [] {
    hw_profile by_node;
    by_node.gemm_gflop_s = 5;
    return by_node;
  }());
  CHECK(f.found().gemm_gflop_s == 5);
  io::perf::keep_probes(f.how.store, whole, by_person);
  CHECK(f.found().gemm_gflop_s == 7);
  CHECK(f.measured == 0);
  f.how.full = true;
  CHECK(f.found().gemm_gflop_s == 100);
  const auto kept = io::perf::find_probes(f.how.store, whole, std::chrono::hours(24));
  REQUIRE(kept);
  CHECK(kept->disk_read_gb_s == 2);
}

TEST_CASE("MPR-4: of the disk a node tells what is kept of it, and writes nothing to find out") {
  probed_once f;
  const auto folder = f.folder / "runs";
  fs::create_directory(folder);
  f.how.folder = folder.string();
  CHECK_FALSE(f.found().disk_read_gb_s);
  CHECK(fs::is_empty(folder));
  io::calibrate_options how;
  how.store = f.how.store;
  how.chunk_and_depth = {{size_t{1} << 20, 2}};
  how.budget_bytes = uint64_t{4} << 20;
  const auto kept = io::calibrate(folder, how);
  REQUIRE(kept);
  const auto found = f.found();
  CHECK(found.disk_read_gb_s == doctest::Approx(kept->best.read_bytes_s / 1e9));
  CHECK(found.disk_write_gb_s == doctest::Approx(kept->best.write_bytes_s / 1e9));
  CHECK(found.gemm_gflop_s == 100);
  f.how.folder = (f.folder / "nowhere").string();
  CHECK_FALSE(f.found().disk_read_gb_s);
}

TEST_CASE("MPR-4: what a person probed of a disk is told of that disk alone") {
  probed_once f;
  auto whole = host_probe_key(false);
  whole.host_only = false;
  whole.disk = io::perf::device_under(".");
  hw_profile by_person;
  by_person.gemm_gflop_s = 7;
  by_person.disk_read_gb_s = by_person.disk_write_gb_s = 2;
  io::perf::keep_probes(f.how.store, whole, by_person);
  f.how.folder = ".";
  CHECK(f.found().disk_read_gb_s == 2);
  f.how.folder = "/proc";  // a device of its own
  const auto found = f.found();
  CHECK(found.gemm_gflop_s == 7);
  CHECK_FALSE(found.disk_read_gb_s);
  CHECK_FALSE(found.disk_write_gb_s);
}

TEST_CASE("MPR-3: what failed is not kept, and one that is to stop measures nothing") {
  probed_once f;
  f.trouble = "the memory was not to be had";
  CHECK(f.found().gemm_gflop_s == 100);
  CHECK(f.found().gemm_gflop_s == 200);
  std::stop_source over;
  over.request_stop();
  f.how.stop = over.get_token();
  const auto found = f.found();
  CHECK_FALSE(found.gemm_gflop_s);
  CHECK(found.kernel.has_value());
  CHECK(f.measured == 2);
}

TEST_CASE("MPR-3: what had no time is no reason to measure all of it at each start") {
  probed_once f;
  f.trouble = "latency of memory: no time is left";
  f.has_all_rates = true;
  CHECK(f.found().gemm_gflop_s == 100);
  CHECK(f.found().gemm_gflop_s == 100);
  CHECK(f.measured == 1);
}

TEST_CASE("HWF-1: a machine's print comes back from a message, and what is none is left out") {
  const auto read = [](const std::string& kind, const std::string& gpu_ids) {
    fbs::HwProfileT m;
    m.kind = kind;
    m.gpu_ids = gpu_ids;
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(fbs::HwProfile::Pack(builder, &m));
    return print_in(*flatbuffers::GetRoot<fbs::HwProfile>(builder.GetBufferPointer()));
  };
  fbs::HardwareFactsT facts;
  facts.cpu_model = "Xeon";
  facts.cores = 8;
  facts.memory_bytes = uint64_t{32} << 30;
  facts.gpus = {"L4"};
  facts.gpu_uuids = {"GPU-1"};
  const auto is = print_of(facts);
  CHECK(is.kind == "Xeon, 8 cores, 32 GiB, 1 x L4");
  CHECK(read(is.kind, is.gpu_ids) == is);
  CHECK_FALSE(read("", "").is_known());
  CHECK(read("", "0a") == io::perf::machine_print{});
  CHECK(read("a\nb", "") == io::perf::machine_print{});
  CHECK(read("Xeon", "a\nb") == io::perf::machine_print{});
  CHECK_FALSE(read(std::string(io::perf::print_bytes + 1, 'x'), "").is_known());
}

TEST_CASE("HWF-1: a profile comes back from a message, and what no profile can have is left out") {
  fbs::HwProfileT m;
  hw_profile is;
  is.cpu_model = "Model \"9\"";
  is.gemm_gflop_s = 41.5;
  is.idle_states = 0;
  m.fields = to_message(is);
  CHECK(m.fields.size() == 3);
  CHECK(as_read(m) == is);
  CHECK(as_read({}) == hw_profile());
  CHECK(as_read(with_field("no_such_field", 1, "")) == hw_profile());
  CHECK(as_read(with_field("", 1, "")) == hw_profile());
  for (const double bad : {-1.0, 0.0, HUGE_VAL, std::nan("")})
    CHECK(as_read(with_field("gemm_gflop_s", bad, "")) == hw_profile());
  CHECK(as_read(with_field("cpu_model", 0, std::string(hw_word_bytes + 1, 'x'))) == hw_profile());
  CHECK(as_read(with_field("cpu_model", 0, std::string(hw_word_bytes, 'x'))).cpu_model);
  CHECK(as_read(with_field("cpu_model", 0, "")) == hw_profile());
  CHECK(as_read(with_field("cpu_model", 0, "a\nb")).cpu_model != "a\nb");  // it is printed
  auto twice = with_field("gemm_gflop_s", 1, "");
  auto again = with_field("gemm_gflop_s", 2, "");
  twice.fields.push_back(std::move(again.fields.front()));
  CHECK(as_read(twice).gemm_gflop_s == 1);
}

TEST_CASE("RFL-1: a rank's parts are its work over its machine's rates, and nothing is guessed") {
  auto plan = train::test::planned_job();
  plan.job.model.dtype = config::compute_dtype::f32;
  plan.micro_batches = 4;
  plan.job.train.micro_batch = 2;
  plan.job.train.seq_len = 32;
  plan.job.parallel.data = 2;
  train::planned_stage stage;
  stage.step_flops = 12e9;
  stage.parameters = 1000;
  hw_profile is;
  CHECK(train::roofline_parts(plan, stage, is, 2).empty());
  is.probe_threads = 8;
  is.gemm_gflop_s = 16;
  auto parts = train::roofline_parts(plan, stage, is, 2);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].kind == train::pipeline_op::forward);
  CHECK(parts[0].busy_ms == doctest::Approx(1000));  // 4 GFLOP by a quarter of 16 GFLOP/s
  CHECK(parts[0].work == 4 * 2 * 32);
  CHECK(parts[1].kind == train::pipeline_op::backward);
  is.adamw_mparam_s = 0.001;
  parts = train::roofline_parts(plan, stage, is, 8);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].busy_ms == doctest::Approx(250));
  CHECK(parts[2].kind == train::pipeline_op::update);
  CHECK(parts[2].busy_ms == doctest::Approx(500));
  CHECK(parts[2].work == 500);
  plan.job.model.dtype = config::compute_dtype::bf16;
  CHECK(train::roofline_parts(plan, stage, is, 8).size() == 1);
  plan.job.swap.dir = {"/drive"};
  CHECK(train::roofline_parts(plan, stage, is, 8).empty());
}
