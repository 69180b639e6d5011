// Hearing a job (job_launch.hpp).
#include "apps/bench/job_launch.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/bench/stopwatch.hpp"

namespace troupe::apps {

namespace {

constexpr double silence_s = 300;  ///< of a job: a net against hangs
constexpr double look_up_s = 0.2;  ///< between two looks at whether a person interrupts
constexpr double to_end_s = 20;    ///< when it was asked to
constexpr size_t last_lines = 5;   ///< of a job that does not get to its end, are told

/// NaN where there is none: null, as a job writes what is not finite.
double number_in(const nlohmann::json& line, const char* key) {
  const auto it = line.find(key);
  return it != line.end() && it->is_number() ? it->get<double>() : std::nan("");
}

int count_in(const nlohmann::json& line, const char* key, int otherwise) {
  const auto it = line.find(key);
  return it != line.end() && it->is_number_integer() ? it->get<int>() : otherwise;
}

std::string word_in(const nlohmann::json& line, const char* key) {
  const auto it = line.find(key);
  return it != line.end() && it->is_string() ? it->get<std::string>() : "";
}

/// NaN where no operation is told of.
double longest_op_in(const nlohmann::json& line) {
  double out = std::nan("");
  const auto parts = line.find("parts");
  if (parts == line.end() || !parts->is_array()) return out;
  for (const auto& p : *parts)
    if (p.is_object()) out = std::fmax(out, number_in(p, "busy_ms"));
  return out;
}

/// The words of a process's command line and environment.
std::vector<std::string> words_of_process(const std::filesystem::path& process) {
  std::vector<std::string> out;
  for (const char* file : {"cmdline", "environ"}) {
    std::ifstream in(process / file, std::ios::binary);
    for (std::string word; std::getline(in, word, '\0');) out.push_back(word);
  }
  return out;
}

pid_t parent_process(const std::filesystem::path& process) {
  std::ifstream in(process / "status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  return 0;
}

}  // namespace

pid_t child_with(pid_t launcher, const std::vector<std::string>& wanted) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const auto number = entry.path().filename().string();
    if (number.find_first_not_of("0123456789") != number.npos) continue;
    const pid_t parent = parent_process(entry.path());
    if (parent != launcher && parent_process(fmt::format("/proc/{}", parent)) != launcher) continue;
    const auto words = words_of_process(entry.path());
    if (std::all_of(wanted.begin(), wanted.end(), [&](const auto& w) {
          return std::find(words.begin(), words.end(), w) != words.end();
        }))
      return std::stoi(number);
  }
  return 0;
}

std::string own_program() {
  std::error_code unreadable;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  return (own.parent_path() / "troupe").string();
}

status write_words(const std::filesystem::path& file) {
  std::ofstream text(file);
  uint32_t x = 1;
  for (int word = 0; word < 20'000; ++word) {
    x = x * 1664525u + 1013904223u;
    text << std::string(1 + (x >> 28) % 5, static_cast<char>('a' + (x >> 24) % 16))
         << (word % 8 == 7 ? '\n' : ' ');
  }
  text.flush();
  if (!text) return error{errc::io, "write " + file.string()};
  return {};
}

std::optional<job_step> job_step_of(const std::string& line) {
  if (!line.starts_with('{')) return std::nullopt;
  const auto j = nlohmann::json::parse(line, nullptr, false);
  if (!j.is_object() || word_in(j, "type") != "step") return std::nullopt;
  return job_step{count_in(j, "step", 0),  count_in(j, "epoch", 1),    number_in(j, "loss"),
                  number_in(j, "step_ms"), word_in(j, "power_source"), longest_op_in(j)};
}

bool same_loss(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

result<job_launch> job_launch::start(const std::vector<std::string>& command,
                                     const std::atomic<bool>* stop) {
  std::vector<std::string> words{"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1"};
  words.insert(words.end(), command.begin(), command.end());
  TROUPE_TRY(child, ckpt_bench::child_process::start(words));
  return job_launch(std::move(child), stop);
}

void job_launch::end() {
  ::kill(child_->pid(), SIGTERM);
  const auto asked = std::chrono::steady_clock::now();
  while (!child_->has_ended() && seconds_since(asked) < to_end_s) child_->hear(look_up_s);
}

result<std::optional<std::string>> job_launch::hear() {
  for (;;) {
    if (stop_ != nullptr && *stop_) return error{errc::cancelled, "interrupted"};
    if (auto line = said_already(look_up_s)) return line;
    if (child_->has_ended()) return std::optional<std::string>();
    if (seconds_since(heard_) > silence_s)
      return error{errc::timeout,
                   fmt::format("the job says nothing for {} s: {}", silence_s, last_words())};
  }
}

std::optional<std::string> job_launch::said_already(double within_s) {
  auto line = child_->hear(within_s);
  if (line) note(*line);
  return line;
}

void job_launch::note(const std::string& line) {
  heard_ = std::chrono::steady_clock::now();
  said_.push_back(line);
  if (said_.size() > last_lines) said_.erase(said_.begin());
}

std::string job_launch::last_words() const {
  return fmt::format("{}", fmt::join(said_, " / "));
}

status run_tool(const std::vector<std::string>& command, const std::atomic<bool>* stop) {
  std::vector<std::string> words{"/bin/sh", "-c", "\"$0\" \"$@\"; echo \"ended with $?\""};
  words.insert(words.end(), command.begin(), command.end());
  TROUPE_TRY(tool, job_launch::start(words, stop));
  std::string last;
  for (;;) {
    TROUPE_TRY(line, tool.hear());
    if (!line) break;
    last = std::move(*line);
  }
  if (last == "ended with 0") return {};
  return error{errc::unavailable, "the tool fails: " + tool.last_words()};
}

}  // namespace troupe::apps
