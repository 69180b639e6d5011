// What runs took is kept, whatever else writes or tears the file, and what is expected of the next
// one rests on it.
#include "io/perf/past_runs.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "io/file.hpp"
#include "io/perf/summed_lines.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::io::perf {

namespace {

past_run run_of(double median_s, std::string work = "w", double flops = 1e9,
                std::string machine = "m") {
  return {1.8e9, "job", std::move(machine), std::move(work), flops,
          0,     100,   median_s,           median_s * 0.9,  median_s * 1.2};
}

void append(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::app) << text;
}

}  // namespace

TEST_CASE("past runs: what was added is read, in order, with all digits") {
  const troupe::scratch here;
  const auto file = here.path / "new" / "past.jsonl";
  CHECK(read_past_runs(file)->runs.empty());
  std::vector<past_run> added;
  for (int i = 1; i <= 5; ++i) {
    auto r = run_of(0.1 / 3 * i, "a \"work\"\n\xff");
    r.expected_s = 1.0 / 7;
    if (i > 1) r.shape = {1.0 / 3, 4e9, 7};
    REQUIRE(add_past_run(file, r));
    r.work = "a \"work\"\n\xef\xbf\xbd";  // what is no UTF-8 is replaced
    added.push_back(r);
  }
  const auto read = read_past_runs(file);
  REQUIRE(read);
  CHECK(read->runs == added);
  CHECK(read->left_out == 0);
}

TEST_CASE("PST-1: a torn line costs itself, and what comes behind it is whole") {
  const troupe::scratch here;
  const auto file = here.path / "past.jsonl";
  REQUIRE(add_past_run(file, run_of(1)));
  const auto line = past_run_line(run_of(2));
  append(file, line.substr(0, line.size() / 2));
  REQUIRE(add_past_run(file, run_of(3)));
  const auto read = read_past_runs(file);
  REQUIRE(read);
  REQUIRE(read->runs.size() == 2);
  CHECK(read->runs[0].median_s == 1);
  CHECK(read->runs[1].median_s == 3);
  CHECK(read->left_out == 1);
}

TEST_CASE("past runs: no byte of a line can be changed unseen, and other files stay as they are") {
  const auto line = past_run_line(run_of(0.25));
  REQUIRE(parse_past_run(line));
  for (size_t at = 0; at < line.size(); ++at) {
    auto wrong = line;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    CAPTURE(wrong);
    CHECK_FALSE(parse_past_run(wrong));
  }
  const troupe::scratch here;
  const auto file = here.path / "past.jsonl";
  append(file, "my own\nnotes\n");
  CHECK(read_past_runs(file).error().code == errc::bad_data);
  CHECK(add_past_run(file, run_of(1)).error().code == errc::bad_data);
  const auto left = read_file(file, 100);
  REQUIRE(left);
  CHECK(*left == "my own\nnotes\n");
}

TEST_CASE("past runs: lines of a later version are left out, and added to") {
  const troupe::scratch here;
  const auto file = here.path / "past.jsonl";
  for (int i = 0; i < 2; ++i) {
    const std::string later = R"({"v":2,"took":"long"})";
    const auto sum = crc32c(std::as_bytes(std::span(later.data(), later.size())));
    append(file, fmt::format("{} {:08x}\n", later, sum));
  }
  REQUIRE(add_past_run(file, run_of(1)));
  const auto read = read_past_runs(file);
  REQUIRE(read);
  CHECK(read->runs.size() == 1);
  CHECK(read->left_out == 2);
}

TEST_CASE("past runs: a lock that nobody gives back is not waited for without end") {
  const troupe::scratch here;
  const auto file = here.path / "past.jsonl";
  REQUIRE(add_past_run(file, run_of(1)));
  const unique_fd holder{::open(file.c_str(), O_RDWR | O_CLOEXEC)};
  REQUIRE(::flock(holder.get(), LOCK_EX) == 0);
  CHECK(add_past_run(file, run_of(2)).error().is(summed_lines_busy));
  REQUIRE(::flock(holder.get(), LOCK_UN) == 0);
  CHECK(add_past_run(file, run_of(2)));
  CHECK(add_past_run(file, run_of(std::nan(""))).error().code == errc::bad_data);
  CHECK(read_past_runs(file)->runs.size() == 2);
}

TEST_CASE("PST-3: numbers that no run has are not believed, nor lines of any length") {
  for (const auto& change : std::vector<std::function<void(past_run&)>>{
           [](past_run& r) { r.median_s = -1; }, [](past_run& r) { r.median_s = 1e300; },
           [](past_run& r) { r.median_s = std::nan(""); }, [](past_run& r) { r.low_s = 0; },
           [](past_run& r) { r.low_s = 5; }, [](past_run& r) { r.high_s = 0.1; },
           [](past_run& r) { r.flops = 1e-320; }, [](past_run& r) { r.expected_s = -1; },
           [](past_run& r) {
             r.shape = {1, 0};
           },
           [](past_run& r) { r.shape = {std::nan("")}; },
           [](past_run& r) { r.shape.assign(33, 1.0); }}) {
    auto r = run_of(0.25);
    change(r);
    CHECK_FALSE(parse_past_run(past_run_line(r)));
  }
  auto named = run_of(0.25);
  named.job = named.work = std::string(100'000, 'x');
  CHECK(past_run_line(named).size() <= max_past_run_bytes);
  CHECK(parse_past_run(past_run_line(named)));
  CHECK_FALSE(parse_past_run(std::string(max_past_run_bytes, ' ') + past_run_line(run_of(1))));
}

TEST_CASE("PST-1: who adds at the same time loses nothing, also where old lines are dropped") {
  const troupe::scratch here;
  const auto file = here.path / "past.jsonl";
  std::string many;
  for (size_t i = 0; i < most_past_runs * 3 / 2 - 40; ++i)
    many += past_run_line(run_of(1 + static_cast<double>(i))) + "\n";
  append(file, many);
  std::vector<std::thread> adders;
  for (int t = 0; t < 4; ++t)
    adders.emplace_back([&file, t] {
      for (int i = 0; i < 20; ++i)
        if (!add_past_run(file, run_of(1e6 + 100 * t + i))) std::abort();
    });
  for (auto& a : adders) a.join();
  const auto read = read_past_runs(file);
  REQUIRE(read);
  CHECK(read->left_out == 0);
  CHECK(read->runs.size() <= most_past_runs + 80);  // PST-2
  CHECK(std::ranges::count_if(read->runs, [](const past_run& r) { return r.median_s >= 1e6; }) ==
        80);
  CHECK(read->runs.front().median_s > 1);  // the oldest went
}

TEST_CASE("PST-1: whoever is killed while it adds costs no run that was added before") {
  const troupe::scratch here;
  const auto file = here.path / "past.jsonl";
  // Some of what is killed adds behind the others, some drops the oldest and writes the file anew.
  std::string many;
  for (size_t i = 0; i < most_past_runs * 3 / 2 - 60; ++i) many += past_run_line(run_of(1)) + "\n";
  append(file, many);
  for (int killed = 1; killed <= 8; ++killed) {
    CAPTURE(killed);
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    const pid_t child = fork();
    if (child == 0)
      for (int i = 0;; ++i) {  // until it is killed: each run is told of once it was added
        if (!add_past_run(file, run_of(1e6 * killed + i))) _exit(1);
        if (write(pipe_ends[1], "a", 1) != 1) _exit(1);
      }
    REQUIRE(child > 0);
    close(pipe_ends[1]);
    std::string added(10 + 3 * static_cast<size_t>(killed), ' ');
    for (auto& one : added) REQUIRE(read(pipe_ends[0], &one, 1) == 1);
    REQUIRE(kill(child, SIGKILL) == 0);
    int how = 0;
    REQUIRE(waitpid(child, &how, 0) == child);
    CHECK(WIFSIGNALED(how));
    for (char more = 0; read(pipe_ends[0], &more, 1) == 1;) added += more;
    close(pipe_ends[0]);
    const auto kept = read_past_runs(file);
    REQUIRE(kept);
    CHECK(kept->left_out <= static_cast<size_t>(killed));  // the line that it was at
    const auto there = static_cast<size_t>(std::ranges::count_if(kept->runs, [&](const auto& r) {
      return r.median_s >= 1e6 * killed && r.median_s < 1e6 * (killed + 1);
    }));
    CHECK(there >= added.size());
    CHECK(there <= added.size() + 1);  // it was not told of yet
    REQUIRE(add_past_run(file, run_of(0.5)));
    CHECK(read_past_runs(file)->runs.back() == run_of(0.5));
  }
}

TEST_CASE("estimates: of the same work the median of its runs, surer the more there are") {
  std::vector<past_run> runs{run_of(1.0)};
  const auto one = estimate_step(runs, "m", "w");
  REQUIRE(one);
  CHECK(one->step_s == 1);
  CHECK(one->basis == past_basis::same_work);
  CHECK(one->runs == 1);
  CHECK(one->steps == 100);
  CHECK(one->most_s >= 1.2);
  CHECK(one->least_s <= 0.9);
  for (const double m : {1.02, 0.98, 1.01, 0.99, 1.0, 1.03, 0.97}) runs.push_back(run_of(m));
  runs.push_back(run_of(50, "w", 1e9, "another"));
  runs.push_back(run_of(70, "other"));
  const auto eight = estimate_step(runs, "m", "w");
  REQUIRE(eight);
  CHECK(eight->step_s == doctest::Approx(1).epsilon(0.02));
  CHECK(eight->runs == 8);
  CHECK(eight->most_s < 1.08);
  CHECK(eight->least_s > 0.93);
  CHECK_FALSE(estimate_step(runs, "nobody's", "w"));
  CHECK_FALSE(estimate_step(runs, "m", "new"));
}

TEST_CASE("estimates: nineteen of twenty runs are within the interval") {
  std::mt19937_64 random(7);
  int within = 0;
  constexpr int tries = 2000;
  for (int i = 0; i < tries; ++i) {
    std::normal_distribution<> day(0, 0.08);
    std::vector<past_run> runs;
    for (int r = 0; r < 3 + i % 6; ++r) runs.push_back(run_of(std::exp(day(random))));
    const auto e = estimate_step(runs, "m", "w");
    REQUIRE(e);
    const double came = std::exp(day(random));
    within += came >= e->least_s && came <= e->most_s ? 1 : 0;
  }
  CHECK(within > tries * 92 / 100);
  CHECK(within < tries * 99 / 100);
}

namespace {

/// A machine whose load changes: medians of its runs differ by a deviation of `load`, and their
/// steps, too.
struct loaded_machine {
  double load;
  std::mt19937_64 random;
  std::normal_distribution<> day{0, 1};
  std::vector<past_run> runs = {};

  past_run run(double usual_s, std::string work) {
    auto out = run_of(usual_s * std::exp(load * day(random)), std::move(work));
    out.low_s = out.median_s * std::exp(-1.645 * load);
    out.high_s = out.median_s * std::exp(1.645 * load);
    return out;
  }
};

struct interval_study {
  double covered_percent = 0;
  double median_width = 0;  ///< its upper end over its lower one
};

/// Of intervals by `known` runs of a work, where there were so many runs of each of three others.
interval_study study_of(double load, int known, int of_others, uint64_t seed) {
  constexpr int tries = 2000;
  loaded_machine m{load, std::mt19937_64(seed)};
  int covered = 0;
  std::vector<double> widths;
  for (int i = 0; i < tries; ++i) {
    m.runs.clear();
    for (int r = 0; r < of_others; ++r)
      for (const auto* other : {"x", "y", "z"}) m.runs.push_back(m.run(other[0] - 'w', other));
    for (int r = 0; r < known; ++r) m.runs.push_back(m.run(0.4, "w"));
    const auto e = estimate_step(m.runs, "m", "w");
    REQUIRE(e);
    const double came = m.run(0.4, "w").median_s;
    covered += came >= e->least_s && came <= e->most_s ? 1 : 0;
    widths.push_back(e->most_s / e->least_s);
  }
  std::nth_element(widths.begin(), widths.begin() + tries / 2, widths.end());
  return {100.0 * covered / tries, widths[tries / 2]};
}

}  // namespace

TEST_CASE("estimates: by one to four runs intervals hold, and say something, whatever the load") {
  struct bound {
    double load, widest;
  };
  for (const auto& of : {bound{0.05, 1.5}, {0.2, 4}, {0.6, 50}})
    for (const int of_others : {0, 4})
      for (const int known : {1, 2, 3, 4}) {
        const auto s = study_of(of.load, known, of_others, 7);
        INFO("load " << of.load << ", of each other " << of_others << ", by " << known << ": "
                     << s.covered_percent << " %, width " << s.median_width);
        CHECK(s.covered_percent >= 88);
        CHECK(s.covered_percent <= 99);
        CHECK(s.median_width <= of.widest);
      }
}

TEST_CASE("estimates: three runs under changing load do not say anything from 20 ms to 7 s") {
  std::vector<past_run> runs;
  for (const double m : {0.2, 0.396, 0.64}) {
    auto r = run_of(m);
    r.low_s = m / 2, r.high_s = 2 * m;
    runs.push_back(r);
  }
  const auto e = estimate_step(runs, "m", "w");
  REQUIRE(e);
  CHECK(e->step_s == doctest::Approx(0.396));
  CHECK(e->most_s / e->least_s < 25);  // Student's t of three says 360
  CHECK(e->least_s < 0.2);
  CHECK(e->most_s > 0.64);
}

TEST_CASE("estimates: how much other work's runs differ here says how sure one run is") {
  const auto width_by = [](double times) {
    std::vector<past_run> runs;
    for (int i = 0; i < 10; ++i) runs.push_back(run_of(i % 2 == 0 ? 1 : times, "other"));
    for (int i = 0; i < 10; ++i) runs.push_back(run_of(i % 2 == 0 ? 1 : 9, "w", 1e9, "another"));
    runs.push_back(run_of(1));
    const auto e = estimate_step(runs, "m", "w");
    REQUIRE(e);
    return e->most_s / e->least_s;
  };
  CHECK(width_by(1.01) < 1.25);
  CHECK(width_by(1.5) > 2);
  // By five runs of its own a work says it itself, where no other does.
  std::vector<past_run> own;
  for (const double m : {1.0, 1.01, 0.99, 1.0, 1.01}) {
    auto r = run_of(m);
    r.high_s = 5;  // whatever its steps do
    own.push_back(r);
  }
  CHECK(estimate_step(own, "m", "w")->most_s < 1.04);
  own.pop_back();
  CHECK(estimate_step(own, "m", "w")->most_s > 1.2);
}

TEST_CASE("ledger: how far expectations were off what came") {
  std::vector<past_run> runs{run_of(1), run_of(1), run_of(1), run_of(1)};
  CHECK(ledger_of(runs, "m").runs == 0);
  runs[0].expected_s = 1.04, runs[1].expected_s = 0.9, runs[2].expected_s = 1.02;
  const auto l = ledger_of(runs, "m");
  CHECK(l.runs == 3);
  CHECK(l.median_off == doctest::Approx(0.04));
  CHECK(l.most_off == doctest::Approx(0.1));
  CHECK(ledger_of(runs, "another").runs == 0);
}

}  // namespace troupe::io::perf
