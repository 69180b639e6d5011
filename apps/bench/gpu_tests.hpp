// Runs the test executables that need a GPU, each within a deadline, and reads what they found.
//
// Why here: a machine with a GPU is had for minutes. One command then runs the tests too, ends
// those that hang, and says what the rest found.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/base/result.hpp"

namespace troupe::apps {

/// What one test executable found.
struct gpu_test_run {
  enum class ending : uint8_t { ended, out_of_time, unreadable };

  std::string name;
  ending how = ending::ended;
  int exit_code = 0;  ///< 128 + signal where one ended it
  int passed = 0;     ///< test cases, those that skip themselves not counted
  int failed = 0;
  int skipped = 0;  ///< test cases that said why they skip
  double seconds = 0;
  std::vector<std::string> failures;  ///< names of test cases; of the last one seen where it hangs
  std::string log;                    ///< path of all it printed

  bool good() const { return how == ending::ended && exit_code == 0 && failed == 0; }
};

/// Reads the output of doctest's console reporter into `run`: counts and names. Without the
/// reporter's last lines it is unreadable, whatever the exit code.
void read_test_output(std::string_view output, gpu_test_run& run);

/// The executables in `folder` that hold tests for a GPU, in the order of their names:
/// test_*_device.
/// Errors: not_found where there is no such folder.
result<std::vector<std::filesystem::path>> find_gpu_tests(const std::filesystem::path& folder);

/// Runs one until `until_s` on the wall's clock (gpu/stopwatch.hpp), then ends it; all it prints
/// goes to a file in `logs`. Errors: io, where it cannot be started or its file not written.
result<gpu_test_run> run_gpu_test(const std::filesystem::path& program,
                                  const std::filesystem::path& logs, double until_s);

/// One line, and a line for each failure.
std::string text(const gpu_test_run& run);
nlohmann::ordered_json json_of(const gpu_test_run& run);

}  // namespace troupe::apps
