// `troupe bench gpu`: all that can be learnt of one device in a few minutes, as one table.
//
// Why one command: machines with a GPU are had for minutes. This measures the device's ceilings,
// then every operation at the shapes of known models against them (the products among them), then
// trains, then runs the tests for GPUs that lie beside the program. Each part has a deadline; what
// did not fit is said.
//
// The parts work through the device interface alone, so `--device host` runs them in CI.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include <unistd.h>

#include "apps/bench/bench.hpp"
#include "apps/bench/gpu_tests.hpp"
#include "apps/bench/ops_report.hpp"
#include "apps/bench/train_run.hpp"
#include "io/base/counted.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

struct gpu_arguments {
  std::string device = "cuda", tests, logs, type = "bf16";
  std::vector<std::string> models, train;
  int threads = 2;
  double minutes = 8, seconds = 0.15;
  int64_t side = 0;
  uint64_t copy_mib = 0;
  bool no_tests = false, no_ops = false, no_train = false, json = false;
};

/// A model with the micro-batch it is measured at: some 16,384 tokens, as much as one GPU takes.
struct model_batch {
  const char* model;
  int64_t batch;
};
constexpr model_batch gpu_models[] = {
    {"gpt2-124m", 16}, {"gpt2-1.5b", 8}, {"llama-1b", 4}, {"llama-8b", 2}};

/// What a GPU trains unless told otherwise.
constexpr const char* gpu_trained[] = {"gpt2-124m", "llama-1b"};

// The shares of the time after which each part begins nothing more.
constexpr double operations_share = 0.45, training_share = 0.7;

int64_t batch_on_gpu(const std::string& model) {
  for (const auto& m : gpu_models)
    if (model == m.model) return m.batch;
  return 0;
}

double now() {
  return gpu::seconds_now(gpu::time_kind::wall);
}

/// What was found, printed as it comes.
class gpu_bench {
 public:
  explicit gpu_bench(const gpu_arguments& a) : a_(a), began_(now()) {
    if (a_.models.empty()) {
      for (const auto& m : gpu_models) a_.models.push_back(m.model);
    }
  }
  result<int> run();

 private:
  status measure_device();
  status measure_models();
  status train_models();
  status run_tests();
  status told(const std::string& text) const { return a_.json ? status{} : print(text); }
  /// The moment, on the wall's clock, when that share of the time is over.
  double deadline(double share) const { return began_ + share * a_.minutes * 60; }
  void leave_out(const std::string& what) { left_out_.push_back(what); }

  gpu_arguments a_;
  const double began_;
  std::unique_ptr<gpu::device> device_;
  std::unique_ptr<gpu::stream> stream_;
  ceilings most_;
  bool on_host_ = false;
  bool failed_ = false;
  nlohmann::ordered_json all_;
  std::vector<std::string> left_out_;
};

status gpu_bench::measure_device() {
  TROUPE_TRY(device, open_bench_device(a_.device, a_.threads));
  device_ = std::move(device);
  TROUPE_TRY(stream, device_->make_stream({"bench", a_.threads}));
  stream_ = std::move(stream);
  const auto facts = device_->facts();
  on_host_ = device_->host_accessible();
  if (a_.side == 0) a_.side = on_host_ ? 1024 : 8192;
  const int64_t side = a_.side;
  const uint64_t mib = a_.copy_mib > 0 ? a_.copy_mib : on_host_ ? 256 : 2048;
  const auto type = a_.type == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32;
  TROUPE_TRY(most, measure_ceilings(*device_, *stream_, type, side, mib << 20));
  most_ = most;
  all_["device"] = {{"name", facts.name},
                    {"instruction_set", facts.instruction_set},
                    {"memory_bytes", facts.memory_bytes}};
  all_["ceilings"] = {{"copy_bytes_per_second", most_.bytes_per_second},
                      {"flops", most_.flops},
                      {"dtype", a_.type},
                      {"side", side},
                      {"copy_bytes", mib << 20}};
  return told(fmt::format(
      "{}, {:.1f} GB\nceilings: a copy of {} MiB {:.0f} GB/s read and written, {} products of {}^3 "
      "{:.0f} GFLOP/s\n",
      facts.name, static_cast<double>(facts.memory_bytes) * 1e-9, mib,
      most_.bytes_per_second * 1e-9, a_.type, side, most_.flops * 1e-9));
}

status gpu_bench::measure_models() {
  TROUPE_CHECK(told(ops_heading()));
  auto rows = nlohmann::ordered_json::array();
  for (const std::string& model : a_.models) {
    if (now() > deadline(operations_share)) {
      leave_out("operations of " + model);
      continue;
    }
    ops_plan plan = {.model = model,
                     .type = a_.type == "bf16" ? gpu::dtype::bf16 : gpu::dtype::f32,
                     .most = most_,
                     .until_s = deadline(operations_share)};
    plan.timing.seconds = a_.seconds;
    plan.batch = on_host_ ? 0 : batch_on_gpu(model);
    auto report = time_ops(*device_, *stream_, plan);
    if (!report) {  // the other models and the tests may do better
      failed_ = true;
      leave_out("operations of " + model + ": " + report.error().message);
      (void)stream_->synchronize();
      continue;
    }
    if (!report->left_out.empty()) {
      leave_out(counted(report->left_out.size(), "operation") + " of " + model);
    }
    rows.push_back(apps::json(*report));
    TROUPE_CHECK(told(text(*report)));
  }
  all_["models"] = std::move(rows);
  const auto counts = gpu::cuda_epilogues();
  all_["epilogues"] = {{"fused", counts.fused}, {"separate", counts.separate}};
  return told(epilogues_told());
}

/// Whole steps of training, by the engine of one rank. A model that does not fit is left out with
/// the reason.
status gpu_bench::train_models() {
  if (a_.train.empty() && !on_host_)
    a_.train.assign(std::begin(gpu_trained), std::end(gpu_trained));
  auto rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < a_.train.size(); ++i) {
    const std::string& model = a_.train[i];
    const double left = deadline(training_share) - now();
    if (left <= 0) {
      leave_out("training of " + model);
      continue;
    }
    train_plan plan = {.model = model, .dtype = a_.type, .device = a_.device};
    plan.threads = on_host_ ? a_.threads : 0;
    plan.batch = on_host_ ? 0 : batch_on_gpu(model);
    plan.peak_side = a_.side;
    plan.until_s = now() + left / static_cast<double>(a_.train.size() - i);
    const train_shape shape = shape_of(plan);
    auto measured = measure_training(shape, plan);
    if (!measured) {
      failed_ = failed_ || measured.error().code != errc::no_memory;
      leave_out("training of " + model + ": " + measured.error().message);
      continue;
    }
    TROUPE_CHECK(told((rows.empty() ? train_heading() : "") + row(plan, shape, *measured)));
    rows.push_back(apps::json(plan, shape, *measured));
  }
  all_["training"] = std::move(rows);
  return {};
}

status gpu_bench::run_tests() {
  std::error_code failed;
  const fs::path here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  TROUPE_TRY(programs, find_gpu_tests(a_.tests.empty() ? here : fs::path(a_.tests)));
  TROUPE_TRY(scratch, io::scratch_folder::make(fs::temp_directory_path(), "troupe-gpu-"));
  const fs::path logs = a_.logs.empty() ? scratch.path() : fs::path(a_.logs);
  fs::create_directories(logs, failed);
  if (failed) return error(errc::io, logs.string() + ": " + failed.message());
  auto rows = nlohmann::ordered_json::array();
  bool all_good = true;
  for (size_t i = 0; i < programs.size(); ++i) {
    const double left = deadline(1) - now();
    if (left <= 0) {
      leave_out(programs[i].filename().string());
      continue;
    }
    // One that hangs takes its share, not the others'.
    const double until = now() + left / static_cast<double>(programs.size() - i);
    TROUPE_TRY(run, run_gpu_test(programs[i], logs, until));
    all_good = all_good && run.good();
    if (run.how == gpu_test_run::ending::out_of_time) leave_out("the rest of " + run.name);
    rows.push_back(json_of(run));
    TROUPE_CHECK(told((rows.size() == 1 ? "tests\n" : "") + text(run)));
  }
  all_["tests"] = std::move(rows);
  if (programs.empty()) leave_out("tests: no test_*_device beside the program (--tests FOLDER)");
  if (!all_good) {
    failed_ = true;
    if (a_.logs.empty()) scratch.keep();
    return told("  what they printed: " + logs.string() + "\n");
  }
  return {};
}

result<int> gpu_bench::run() {
  TROUPE_CHECK(measure_device());
  if (!a_.no_ops) TROUPE_CHECK(measure_models());
  stream_.reset();
  device_.reset();  // its memory is for training, then for the tests
  if (!a_.no_train) TROUPE_CHECK(train_models());
  if (!a_.no_tests) TROUPE_CHECK(run_tests());
  const double seconds = now() - began_;
  all_["left_out"] = left_out_;
  all_["seconds"] = seconds;
  if (a_.json) TROUPE_CHECK(print(all_.dump() + "\n"));
  for (const auto& what : left_out_) TROUPE_CHECK(told("left out: " + what + "\n"));
  TROUPE_CHECK(told(fmt::format("{:.0f} s in all\n", seconds)));
  return failed_ ? 1 : 0;
}

}  // namespace

void add_bench_gpu(shell& sh, command* bench) {
  auto* verb = bench->add_subcommand(
      "gpu", "Ceilings, operations, training and tests of one device, as one table");
  auto a = std::make_shared<gpu_arguments>();
  std::vector<std::string> models;
  for (const auto& [name, shape] : bench_shapes()) models.push_back(name);
  verb->add_option("--device", a->device, "host, cuda or cuda:N (default cuda)");
  verb->add_option("--models", a->models, "Shapes to time (default GPT-2 and Llama, two of each)")
      ->delimiter(',')
      ->one_of(models);
  verb->add_option("--dtype", a->type, "f32 or bf16 (default bf16)")->number_type();
  verb->add_option("--minutes", a->minutes, "Time for all of it (default 8)")->positive();
  verb->add_option("--seconds", a->seconds, "Time for each operation (default 0.15)")->positive();
  verb->add_option("--side", a->side, "Of the square product that is the ceiling (default 8192)")
      ->within(16, 32768);
  verb->add_option("--copy-mib", a->copy_mib, "Of the copy that is the ceiling (default 2048)")
      ->within(1, 65536);
  verb->add_option("--threads", a->threads, "Host threads of the stream (default 2)")->positive();
  verb->add_option("--tests", a->tests, "Folder of test executables (default: beside the program)");
  verb->add_option("--logs", a->logs, "Folder for what tests print (default: a temporary one)");
  verb->add_option("--train", a->train,
                   "Models to train (default: gpt2-124m and llama-1b on a GPU, none on the host)")
      ->delimiter(',')
      ->one_of(train_models());
  verb->add_flag("--no-ops", a->no_ops, "Without operations");
  verb->add_flag("--no-train", a->no_train, "Without training");
  verb->add_flag("--no-tests", a->no_tests, "Without tests");
  verb->add_flag("--json", a->json, "As one JSON object");
  on_run(sh, verb, [a] { return gpu_bench(*a).run(); });
}

}  // namespace troupe::apps
