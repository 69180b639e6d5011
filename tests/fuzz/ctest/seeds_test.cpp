// Fuzzers that no other test runs, from their seeds and seeded mutations of them, so that every
// build runs them, not only clang's.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/fuzz/mutate.hpp"

// CMake gives each entry point its fuzzer's name.
extern "C" {
int fuzz_actors_budget_inputs(const uint8_t* data, size_t size);
int fuzz_actors_budget_schedule(const uint8_t* data, size_t size);
int fuzz_actors_client_hello(const uint8_t* data, size_t size);
int fuzz_actors_clock_profile(const uint8_t* data, size_t size);
int fuzz_actors_fault_mix(const uint8_t* data, size_t size);
int fuzz_actors_foreign_error(const uint8_t* data, size_t size);
int fuzz_actors_lease(const uint8_t* data, size_t size);
int fuzz_actors_log_rules(const uint8_t* data, size_t size);
int fuzz_actors_named_faults(const uint8_t* data, size_t size);
int fuzz_actors_row_journal(const uint8_t* data, size_t size);
int fuzz_actors_row_trace(const uint8_t* data, size_t size);
int fuzz_actors_train_state(const uint8_t* data, size_t size);
int fuzz_apps_console_line(const uint8_t* data, size_t size);
int fuzz_gpu_agent_message(const uint8_t* data, size_t size);
int fuzz_gpu_control_record(const uint8_t* data, size_t size);
int fuzz_gpu_pair_proof(const uint8_t* data, size_t size);
int fuzz_gpu_predict_model(const uint8_t* data, size_t size);
int fuzz_io_byte_stream(const uint8_t* data, size_t size);
int fuzz_io_json_records(const uint8_t* data, size_t size);
int fuzz_io_megatron_index(const uint8_t* data, size_t size);
int fuzz_io_copy_frame(const uint8_t* data, size_t size);
int fuzz_io_folder(const uint8_t* data, size_t size);
int fuzz_io_journal(const uint8_t* data, size_t size);
int fuzz_io_kernel_counters(const uint8_t* data, size_t size);
int fuzz_io_machine(const uint8_t* data, size_t size);
int fuzz_io_number_table(const uint8_t* data, size_t size);
int fuzz_io_part_times(const uint8_t* data, size_t size);
int fuzz_io_past_runs(const uint8_t* data, size_t size);
int fuzz_io_perf_table(const uint8_t* data, size_t size);
int fuzz_io_power_tree(const uint8_t* data, size_t size);
int fuzz_io_tls(const uint8_t* data, size_t size);
int fuzz_trace_chrome(const uint8_t* data, size_t size);
}

namespace {

struct fuzzer {
  const char* name;
  int (*entry)(const uint8_t*, size_t);
  size_t selector_bytes = 1;
};

const fuzzer fuzzers[] = {{"actors_budget_inputs", fuzz_actors_budget_inputs, 0},
                          {"actors_budget_schedule", fuzz_actors_budget_schedule, 0},
                          {"actors_client_hello", fuzz_actors_client_hello, 0},
                          {"actors_clock_profile", fuzz_actors_clock_profile, 0},
                          {"actors_fault_mix", fuzz_actors_fault_mix, 0},
                          {"actors_foreign_error", fuzz_actors_foreign_error, 0},
                          {"actors_lease", fuzz_actors_lease},
                          {"actors_log_rules", fuzz_actors_log_rules},
                          {"actors_named_faults", fuzz_actors_named_faults, 0},
                          {"actors_row_journal", fuzz_actors_row_journal, 0},
                          {"actors_row_trace", fuzz_actors_row_trace, 0},
                          {"actors_train_state", fuzz_actors_train_state, 0},
                          {"apps_console_line", fuzz_apps_console_line, 0},
                          {"gpu_agent_message", fuzz_gpu_agent_message, 0},
                          {"gpu_control_record", fuzz_gpu_control_record, 0},
                          {"gpu_pair_proof", fuzz_gpu_pair_proof},
                          {"gpu_predict_model", fuzz_gpu_predict_model, 0},
                          {"io_byte_stream", fuzz_io_byte_stream, 0},
                          {"io_copy_frame", fuzz_io_copy_frame},
                          {"io_folder", fuzz_io_folder},
                          {"io_journal", fuzz_io_journal},
                          {"io_json_records", fuzz_io_json_records, 0},
                          {"io_kernel_counters", fuzz_io_kernel_counters, 0},
                          {"io_machine", fuzz_io_machine, 0},
                          {"io_megatron_index", fuzz_io_megatron_index, 0},
                          {"io_number_table", fuzz_io_number_table, 0},
                          {"io_part_times", fuzz_io_part_times, 0},
                          {"io_past_runs", fuzz_io_past_runs, 0},
                          {"io_perf_table", fuzz_io_perf_table},
                          {"io_power_tree", fuzz_io_power_tree, 0},
                          {"io_tls", fuzz_io_tls},
                          {"trace_chrome", fuzz_trace_chrome}};

std::vector<std::vector<uint8_t>> seeds_of(const std::string& name) {
  std::vector<std::vector<uint8_t>> out;
  for (const auto& file :
       std::filesystem::directory_iterator(TROUPE_SOURCE_DIR "/tests/fuzz/seeds/" + name)) {
    std::ifstream in(file.path(), std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return out;
}

}  // namespace

TEST_CASE("fuzzers survive their seeds and 20,000 seeded mutations each") {
  for (const auto& f : fuzzers) {
    CAPTURE(f.name);
    const auto seeds = seeds_of(f.name);
    REQUIRE(!seeds.empty());
    for (const auto& seed : seeds) f.entry(seed.data(), seed.size());
    std::mt19937_64 random(7);
    for (int i = 0; i < 20'000; ++i) {
      auto x = seeds[random() % seeds.size()];
      troupe::mutate(x, random, f.selector_bytes);
      f.entry(x.data(), x.size());
    }
  }
}
