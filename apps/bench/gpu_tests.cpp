// Starting test executables and reading doctest's report.
#include "apps/bench/gpu_tests.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/bench/checkpoint_process.hpp"
#include "gpu/stopwatch.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

constexpr size_t most_output = 16 << 20;  // of a log that is read; failures stand early
constexpr std::string_view case_mark = "TEST CASE:  ";

/// The number before `word`, e.g. 13 of "13 passed"; -1 if there is none.
int number_before(std::string_view line, std::string_view word) {
  const auto at = line.find(word);
  if (at == line.npos) return -1;
  auto from = at;
  while (from > 0 && line[from - 1] >= '0' && line[from - 1] <= '9') --from;
  int number = -1;
  std::from_chars(line.data() + from, line.data() + at, number);
  return number;
}

std::string_view line_at(std::string_view text, size_t at) {
  return text.substr(at, std::min(text.find('\n', at), text.size()) - at);
}

std::string read_log(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(most_output, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

const char* to_string(const gpu_test_run& run) {
  if (run.how == gpu_test_run::ending::out_of_time) return "out of time";
  if (run.exit_code >= 128) return "crashed";
  if (run.how == gpu_test_run::ending::unreadable) return "no report";
  return run.good() ? "passed" : "FAILED";
}

}  // namespace

void read_test_output(std::string_view output, gpu_test_run& run) {
  // Blocks between rulers: one a test case (and subcase) that had something to say.
  std::string last;
  std::vector<std::string> skips;
  const auto note = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (size_t at = output.find(case_mark); at != output.npos;) {
    const size_t next = output.find(case_mark, at + 1);
    const auto block = output.substr(at, next == output.npos ? next : next - at);
    last = std::string(line_at(block, case_mark.size()));
    if (block.find(" ERROR: ") != block.npos) note(run.failures, last);
    if (block.find("SKIPPED: ") != block.npos) note(skips, last);
    at = next;
  }
  const auto summary = output.rfind("[doctest] test cases:");
  const auto counts = summary == output.npos ? std::string_view() : line_at(output, summary);
  run.failed = number_before(counts, " failed");
  run.passed = number_before(counts, " passed");
  if (run.failed < 0 || run.passed < 0) {
    run.passed = run.failed = 0;
    if (run.how == gpu_test_run::ending::ended) run.how = gpu_test_run::ending::unreadable;
    if (!last.empty()) note(run.failures, last);
  }
  run.skipped = static_cast<int>(skips.size());
  run.passed = std::max(0, run.passed - run.skipped);
}

result<std::vector<fs::path>> find_gpu_tests(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("test_") || !name.ends_with("_device")) continue;
    if (it->is_regular_file(failed) && ::access(it->path().c_str(), X_OK) == 0) {
      found.push_back(it->path());
    }
  }
  if (failed) return error(errc::not_found, folder.string() + ": " + failed.message());
  std::sort(found.begin(), found.end());
  return found;
}

result<gpu_test_run> run_gpu_test(const fs::path& program, const fs::path& logs, double until_s) {
  gpu_test_run run;
  run.name = program.filename().string();
  run.log = (logs / (run.name + ".log")).string();
  const double began = gpu::seconds_now(gpu::time_kind::wall);
  {
    TROUPE_TRY(child,
               ckpt_bench::child_process::start(
                   {"/bin/sh", "-c", R"("$1" --no-colors=true >"$2" 2>&1 </dev/null; echo $?)",
                    "sh", fs::absolute(program).string(), run.log}));
    const auto code = child->hear(std::max(0.0, until_s - began));
    if (code) {
      std::from_chars(code->data(), code->data() + code->size(), run.exit_code);
    } else {
      run.how = gpu_test_run::ending::out_of_time;
    }
  }  // ended, whatever it was at
  run.seconds = gpu::seconds_now(gpu::time_kind::wall) - began;
  if (!fs::exists(run.log)) return error(errc::io, "cannot write " + run.log);
  read_test_output(read_log(run.log), run);
  return run;
}

std::string text(const gpu_test_run& run) {
  std::string out =
      fmt::format("  {:<30} {:<12} {:>4} passed {:>4} failed {:>4} skipped {:>8.1f} s\n", run.name,
                  to_string(run), run.passed, run.failed, run.skipped, run.seconds);
  for (const auto& name : run.failures) out += fmt::format("    {}\n", name);
  return out;
}

nlohmann::ordered_json json_of(const gpu_test_run& run) {
  return {{"test", run.name},       {"outcome", to_string(run)}, {"exit_code", run.exit_code},
          {"passed", run.passed},   {"failed", run.failed},      {"skipped", run.skipped},
          {"seconds", run.seconds}, {"failures", run.failures},  {"log", run.log}};
}

}  // namespace troupe::apps
