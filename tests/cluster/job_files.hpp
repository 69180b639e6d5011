// What a run needs, made by the test: a folder, text, a configuration, and the runs themselves.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/folder/lock.hpp"
#include "tests/cluster/program.hpp"
#include "tests/io/scratch.hpp"
#include "tests/loopback.hpp"

namespace troupe::cluster_test {

namespace fs = std::filesystem;

/// The settings of a job that does not end by itself.
inline const std::vector<std::string> endless{"train.steps=1000000", "train.schedule=constant"};

/// A folder with data and a configuration of a model small enough that 20 steps take no time.
struct job_files {
  scratch folder;

  job_files() {
    std::ofstream text(folder / "data.txt");
    uint32_t x = 1;
    for (int line = 0; line < 400; ++line) {
      for (int word = 0; word < 8; ++word) {
        x = x * 1664525u + 1013904223u;
        text << std::string(1 + (x >> 28) % 5, static_cast<char>('a' + (x >> 24) % 16)) << ' ';
      }
      text << '\n';
    }
    std::ofstream(folder / "job.toml") << fmt::format(
        "[job]\nname = \"t\"\noutput = \"{0}/run\"\n"
        "[cluster]\nthreads = 1\njoin_timeout_ms = 60000\n"
        "[model]\nlayers = 2\nhidden = 64\nheads = 4\n"
        "[data]\npath = \"{0}/data.txt\"\n"
        "[train]\nsteps = 20\nbatch = 4\nseq_len = 32\nlr = 3e-3\nschedule = \"cosine\"\n"
        "warmup_steps = 1\n"
        "[log]\nformat = \"json\"\n"
        "[predict]\nprobe = \"off\"\n",  // each test has a cache of its own, and would pay for it
        folder.path.string());
  }

  fs::path operator/(std::string_view name) const { return folder / name; }

  /// Arguments of `troupe up` with settings over the file, e.g. {"train.steps=10"}.
  std::vector<std::string> up(const std::vector<std::string>& sets = {}) const {
    std::vector<std::string> out{"up", (folder / "job.toml").string()};
    for (const auto& s : sets) out.insert(out.end(), {"--set", s});
    return out;
  }

  /// Runs to the end, which must be good; losses of the steps made.
  std::vector<double> losses(const std::vector<std::string>& sets) const {
    program p(up(sets));
    const int code = p.wait();
    INFO(p.err());
    REQUIRE(code == 0);
    return p.losses();
  }

  fs::path checkpoint(int step, const std::string& run = "run") const {
    return folder / fmt::format("{}/checkpoints/step-{:08}", run, step);
  }
};

/// Whether a folder holds anything but its lock, which who aborts leaves there.
inline bool has_entry(const fs::path& folder) {
  std::error_code none_yet;
  for (const auto& e : fs::directory_iterator(folder, none_yet))
    if (e.path().filename() != troupe::io::lock_file) return true;
  return false;
}

/// The objects of a file that has one on each line: incidents.jsonl, audit.jsonl. A last line that
/// is being written is none yet.
inline std::vector<nlohmann::json> objects_in(const fs::path& file) {
  std::ifstream in(file);
  std::vector<nlohmann::json> out;
  for (std::string line; std::getline(in, line);) {
    auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_discarded() && in.eof()) break;
    REQUIRE_MESSAGE(!j.is_discarded(), line);
    out.push_back(std::move(j));
  }
  return out;
}

/// The lines of a log.jsonl that are of a type; one that is being written is none yet.
inline std::vector<nlohmann::json> logged(const fs::path& log, const std::string& type) {
  std::ifstream in(log);
  std::vector<nlohmann::json> out;
  for (std::string line; std::getline(in, line);) {
    auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_object() && j.value("type", "") == type) out.push_back(std::move(j));
  }
  return out;
}
inline std::vector<nlohmann::json> logged_steps(const fs::path& log) {
  return logged(log, "step");
}

/// The one launch that a job's log has ended for that reason with that code; its end.
inline nlohmann::json only_end_in(const fs::path& log, const std::string& reason, int code) {
  const auto ends = logged(log, "end");
  REQUIRE(ends.size() == 1);
  CHECK(ends[0]["reason"] == reason);
  CHECK(ends[0]["code"] == code);
  CHECK(ends[0]["seconds"] > 0);
  return ends[0];
}

/// The one object of such a file.
inline nlohmann::json only_object_in(const fs::path& file) {
  auto all = objects_in(file);
  REQUIRE(all.size() == 1);
  return std::move(all.front());
}

/// Adds to settings.
inline std::vector<std::string> with(std::vector<std::string> sets,
                                     const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Names in a folder that have this part.
inline std::vector<std::string> names_with(const fs::path& folder, std::string_view part) {
  std::vector<std::string> out;
  std::error_code none_there;
  for (const auto& entry : fs::directory_iterator(folder, none_there))
    if (const auto name = entry.path().filename().string(); name.find(part) != std::string::npos)
      out.push_back(name);
  return out;
}

/// Settings of a text that takes some seconds to tokenise, so that whoever interrupts that comes in
/// time on a busy machine, into {job}/cache.
inline std::vector<std::string> much_text(const job_files& job) {
  std::string text(60'000'000, ' ');
  uint32_t x = 1;
  for (size_t i = 0; i < text.size(); i += 2) {
    x = x * 1664525u + 1013904223u;
    text[i] = static_cast<char>('a' + (x >> 24) % 26);
    text[i + 1] = i % 128 == 126 ? '\n' : (x >> 20) % 5 == 0 ? ' ' : 'q';  // pieces end with lines
  }
  std::ofstream(job / "big.txt") << text;
  return {fmt::format("data.path={}", (job / "big.txt").string()),
          fmt::format("data.cache={}", (job / "cache").string()),
          fmt::format("data.tokenizer={}/tests/io/fixtures/gpt2.tokenizer.json",
                      TROUPE_SOURCE_DIR)};
}

/// Settings of token files that a start takes some seconds to read, for the same reason.
inline std::vector<std::string> many_tokens(const job_files& job) {
  const auto zeros = job / "zeros.bin";
  std::ofstream(zeros).put(0);
  fs::resize_file(zeros, uintmax_t{4} << 30);  // a hole: it takes no room on the disk
  return {fmt::format("data.path={}", zeros.string()), "model.vocab=256"};
}

/// A layout of one worker a node.
inline std::vector<std::string> layout(int data, int pipeline) {
  return {fmt::format("cluster.nodes={}", data * pipeline), fmt::format("parallel.data={}", data),
          fmt::format("parallel.pipeline={}", pipeline)};
}

/// A setting of cluster.port to one that nobody else takes (an external launch wants a fixed one).
inline std::string free_port() {
  return fmt::format("cluster.port={}", reserved_port());
}

/// The largest relative difference; infinite if the lengths differ or there is nothing to compare.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] / b[i] - 1));
  return most;
}

/// Until a step's line says that this one is saved.
inline bool until_saved(program& up, int step) {
  return up.until([&] {
    const auto steps = up.objects("step");
    return std::any_of(steps.begin(), steps.end(),
                       [&](const auto& s) { return s.value("saved_step", 0) >= step; });
  });
}

/// A line at the console of a running job, which may take as long to answer as a busy machine does.
inline finished ordered(program& up, const std::string& line) {
  REQUIRE(up.until([&] { return up.port() != 0; }));
  return run({"console", "--connect", fmt::format("127.0.0.1:{}", up.port()), "--timeout-ms",
              "60000", "-c", line});
}

/// Gives a job that does not end by itself (`endless`) its last step, some behind those that it has
/// made by then, however late on a busy machine that is; the number of that step.
inline int end_soon(program& up, const fs::path& log, int more = 12) {
  int last = 0;
  REQUIRE(eventually([&] {
    for (const auto& step : logged_steps(log)) last = std::max(last, step["step"].get<int>());
    last += more;
    up.listen();
    return ordered(up, fmt::format("set train.steps {}", last)).code == 0;
  }));
  return last;
}

}  // namespace troupe::cluster_test
