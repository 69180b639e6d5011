// Lines with sums, and medians of them: see past_runs.hpp.
#include "io/perf/past_runs.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/median.hpp"
#include "io/file.hpp"
#include "io/formats/json_text.hpp"

namespace troupe::io::perf {

namespace fs = std::filesystem;

namespace {

using json = nlohmann::ordered_json;

constexpr int line_version = 1;
/// What one reads: half more lines than are kept (PST-2), each as long as may be.
constexpr size_t whole_file_bytes = most_past_runs * 3 / 2 * max_past_run_bytes;
/// No step takes as long, nor does as much; no text is as long.
constexpr double step_range_s = 1e7, largest_flops = 1e30;
constexpr size_t text_bytes = 1024;
constexpr double shortest_step_s = 1e-9;
/// Of a shape: how many, and how large each may be.
constexpr size_t shape_numbers = 32;
constexpr double shape_range = 1e15;

/// Runs of the same work that say how much they differ; fewer are given an interval of their own.
constexpr size_t enough_runs = 3;
constexpr size_t newest_runs = 16;  ///< older ones were another program's
/// No estimate is surer: what a machine does beside differs from day to day.
constexpr double surest = 0.03, sure_of_few = 0.1;

uint32_t line_sum(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

constexpr size_t sum_digits = 8;

/// The text in front of a right sum; empty where there is none.
std::string_view summed_text(std::string_view line) {
  if (line.size() > max_past_run_bytes || line.size() < sum_digits + 2) return {};
  const auto text = line.substr(0, line.size() - sum_digits - 1);
  if (line[text.size()] != ' ') return {};
  const auto digits = line.substr(text.size() + 1);
  uint32_t sum = 0;
  const auto [end, failed] = std::from_chars(digits.begin(), digits.end(), sum, 16);
  return failed == std::errc{} && end == digits.end() && sum == line_sum(text) ? text
                                                                               : std::string_view();
}

bool is_summed(std::string_view line) {
  return !summed_text(line).empty();
}

std::optional<double> run_number(const nlohmann::json& j, const char* key, double most) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_number()) return std::nullopt;
  const auto value = it->get<double>();
  if (!std::isfinite(value) || value < 0 || value > most) return std::nullopt;
  return value;
}

std::optional<std::string> run_text(const nlohmann::json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_string()) return std::nullopt;
  auto value = it->get<std::string>();
  if (value.size() > text_bytes) return std::nullopt;
  return value;
}

/// Numbers above 0; none where the line is of a program that kept none.
std::optional<std::vector<double>> run_shape(const nlohmann::json& j) {
  const auto it = j.find("shape");
  if (it == j.end()) return std::vector<double>{};
  if (!it->is_array() || it->size() > shape_numbers) return std::nullopt;
  std::vector<double> out;
  for (const auto& number : *it) {
    if (!number.is_number()) return std::nullopt;
    out.push_back(number.get<double>());
    if (!(out.back() > 0) || out.back() > shape_range) return std::nullopt;
  }
  return out;
}

/// Two-sided, 95 %, by degrees of freedom from 2 on: Student's t.
double t_of(size_t freedom) {
  constexpr std::array<double, 14> t{4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                     2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
  return t[std::min(std::max<size_t>(freedom, 2), t.size() + 1) - 2];
}

past_estimate of_same_work(std::span<const past_run* const> runs) {
  past_estimate out;
  std::vector<double> medians;
  double within = 0;  // of one run, on a logarithmic scale
  for (const auto* r : runs) {
    medians.push_back(r->median_s);
    out.steps += r->steps;
    within =
        std::max({within, std::log(r->high_s / r->median_s), std::log(r->median_s / r->low_s)});
  }
  out.runs = medians.size();
  out.step_s = upper_median(medians);
  double sure = std::max(sure_of_few, within);
  if (out.runs >= enough_runs) {
    double squares = 0;
    for (const double m : medians) squares += std::pow(std::log(m / out.step_s), 2);
    const auto n = static_cast<double>(out.runs);
    // Of one more run: its own deviation, and that of the middle of these.
    sure = std::max(surest, t_of(out.runs - 1) * std::sqrt(squares / (n - 1) * (1 + 1 / n)));
  }
  out.least_s = out.step_s * std::exp(-sure);
  out.most_s = out.step_s * std::exp(sure);
  return out;
}

/// The file, locked; the one that the name leads to, also where another has just replaced it.
result<unique_fd> open_locked(const fs::path& file) {
  constexpr int lock_tries = 100;  // a second: whoever holds it adds a line, or has been stopped
  constexpr std::chrono::milliseconds lock_pause{10};
  for (int tries = 0; tries < lock_tries; ++tries) {
    unique_fd fd{::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666)};
    if (!fd) return error::system(fmt::format("open {}", file.string()), errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (still_names(file, fd.get())) return fd;
      continue;  // another has just replaced it
    }
    if (errno != EINTR && errno != EWOULDBLOCK)
      return error::system(fmt::format("lock {}", file.string()), errno);
    std::this_thread::sleep_for(lock_pause);
  }
  return past_runs_busy(file.string());
}

std::vector<std::string_view> run_lines(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size(); at += out.back().size() + 1)
    out.push_back(text.substr(at, std::min(text.find('\n', at), text.size()) - at));
  return out;
}

/// By its first line that is whole, of whatever version. A file of one line may be a torn one.
bool is_ours(const std::vector<std::string_view>& lines) {
  return lines.size() < 2 || std::any_of(lines.begin(), lines.end(), is_summed);
}

/// Where the last byte is no line's end, a line was torn: it gets one.
status end_torn_line(const unique_fd& fd, const fs::path& file) {
  const auto size = ::lseek(fd.get(), 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(fd.get(), &last, 1, size - 1) == 1 && last != '\n')
    return write_all(fd.get(), std::as_bytes(std::span("\n", 1)), file.string());
  return {};
}

}  // namespace

std::string past_run_line(const past_run& run) {
  const auto cut = [](const std::string& text) { return text.substr(0, text_bytes / 2); };
  const json j{{"v", line_version},
               {"unix_s", run.unix_s},
               {"job", cut(run.job)},
               {"machine", cut(run.machine)},
               {"work", cut(run.work)},
               {"flops", run.flops},
               {"expected_s", run.expected_s},
               {"steps", run.steps},
               {"median_s", run.median_s},
               {"low_s", run.low_s},
               {"high_s", run.high_s},
               {"shape", run.shape}};
  const auto text = j.dump(-1, ' ', false, json::error_handler_t::replace);
  return fmt::format("{} {:08x}", text, line_sum(text));
}

std::optional<past_run> parse_past_run(std::string_view line) {
  const auto text = summed_text(line);
  if (text.empty()) return std::nullopt;
  const auto j = parse_json(text, 2);
  if (!j || !j->is_object() || run_number(*j, "v", 1e9) != line_version) return std::nullopt;
  const auto job = run_text(*j, "job");
  const auto machine = run_text(*j, "machine");
  const auto work = run_text(*j, "work");
  const auto seconds = [&](const char* key) { return run_number(*j, key, step_range_s); };
  const auto unix_s = run_number(*j, "unix_s", 1e12), steps = run_number(*j, "steps", 1e15);
  const auto flops = run_number(*j, "flops", largest_flops);
  const auto expected = seconds("expected_s"), median = seconds("median_s");
  const auto low = seconds("low_s"), high = seconds("high_s");
  auto shape = run_shape(*j);
  if (!shape || !job || !machine || !work || !unix_s || !flops || !expected || !steps || !median ||
      !low || !high)
    return std::nullopt;
  if (*flops < 1 || *low < shortest_step_s || *low > *median || *median > *high)
    return std::nullopt;
  return past_run{*unix_s,
                  *job,
                  *machine,
                  *work,
                  *flops,
                  *expected,
                  static_cast<uint64_t>(*steps),
                  *median,
                  *low,
                  *high,
                  std::move(*shape)};
}

result<past_runs> read_past_runs(const fs::path& file) {
  const auto text = read_file(file, whole_file_bytes);
  if (!text && text.error().code == errc::not_found) return past_runs{};
  if (!text) return text.error();
  past_runs out;
  const auto lines = run_lines(*text);
  for (const auto line : lines)
    if (const auto run = parse_past_run(line))
      out.runs.push_back(*run);
    else
      ++out.left_out;
  if (!is_ours(lines)) return not_past_runs(file.string());
  return out;
}

status add_past_run(const fs::path& file, const past_run& run) {
  const auto line = past_run_line(run) + "\n";
  if (!parse_past_run(std::string_view(line).substr(0, line.size() - 1)))
    return error{errc::bad_data, "a run took what no run takes"};
  std::error_code made;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), made);
  if (made) return error::system(fmt::format("make {}", file.parent_path().string()), made.value());
  TROUPE_TRY(fd, open_locked(file));
  TROUPE_TRY(text, read_file(file, whole_file_bytes));
  const auto lines = run_lines(text);
  if (!is_ours(lines)) return not_past_runs(file.string());
  if (lines.size() < most_past_runs * 3 / 2) {
    TROUPE_CHECK(end_torn_line(fd, file));
    return write_all(fd.get(), std::as_bytes(std::span(line.data(), line.size())), file.string());
  }
  std::string kept;
  for (const auto& old : std::span(lines).last(most_past_runs - 1))
    kept += fmt::format("{}\n", old);
  return write_atomic(file, kept + line);
}

std::optional<past_estimate> estimate_step(std::span<const past_run> runs, std::string_view machine,
                                           std::string_view work) {
  std::vector<const past_run*> same;
  for (const auto& r : runs)
    if (r.machine == machine && r.work == work) same.push_back(&r);
  if (same.empty()) return std::nullopt;
  return of_same_work(std::span(same).last(std::min(same.size(), newest_runs)));
}

past_ledger ledger_of(std::span<const past_run> runs, std::string_view machine) {
  std::vector<double> off;
  for (const auto& r : runs)
    if (r.machine == machine && r.expected_s > 0)
      off.push_back(std::abs(r.expected_s / r.median_s - 1));
  if (off.empty()) return {};
  const double most = *std::max_element(off.begin(), off.end());
  return {off.size(), upper_median(std::move(off)), most};
}

}  // namespace troupe::io::perf
