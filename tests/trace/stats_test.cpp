// Statistics of traces: percentiles against counting, groups, tables.
#include "trace/stats.hpp"

#include <numeric>
#include <sstream>

#include <nlohmann/json.hpp>

#include "io/base/text.hpp"
#include "tests/trace/sample.hpp"
#include "trace/text.hpp"

using namespace troupe;
using namespace troupe::trace;

TEST_CASE("stats: percentiles are the smallest time that so many do not exceed") {
  for (const size_t n : {1u, 2u, 9u, 10u, 99u, 100u, 101u, 1000u}) {
    std::vector<int64_t> ns(n);
    for (size_t i = 0; i < n; ++i) ns[i] = static_cast<int64_t>((i * 7919) % n) + 1;  // 1..n
    const auto t = times_of(ns);
    CAPTURE(n);
    const auto naive = [&](double p) {
      for (size_t x = 1; x <= n; ++x)
        if (static_cast<double>(x) >= p * static_cast<double>(n) - 1e-9)
          return static_cast<int64_t>(x);
      return static_cast<int64_t>(n);
    };
    if (std::gcd(n, size_t{7919}) == 1) {
      CHECK(t.p50_ns == naive(0.5));
      CHECK(t.p90_ns == naive(0.9));
      CHECK(t.p99_ns == naive(0.99));
      CHECK(t.max_ns == static_cast<int64_t>(n));
      CHECK(t.sum_ns == static_cast<int64_t>(n * (n + 1) / 2));
    }
  }
  std::vector<int64_t> none;
  CHECK(times_of(none).max_ns == 0);
}

TEST_CASE("stats: messages, actors and work of a step") {
  trace_maker m = two_stage_step();
  m.content(100).records.front().depth = 12;
  const auto s = stats_of(m.build());
  const auto find = [](const std::vector<stats_row>& rows, const std::string& name) {
    const auto it =
        std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
    REQUIRE(it != rows.end());
    return *it;
  };
  const auto run_op = find(s.messages, "RunOp");
  CHECK(run_op.count == 6);
  CHECK(run_op.bytes == 6 * 96);
  CHECK(run_op.waiting.p50_ns == doctest::Approx(ms(0.12)).epsilon(0.01));
  CHECK(find(s.messages, "system").waiting.max_ns == 0);
  const auto forward = find(s.works, "forward");
  CHECK(forward.count == 2);
  CHECK(forward.handling.max_ns == doctest::Approx(ms(40)).epsilon(1e-6));
  CHECK(find(s.actors, "run").deepest == 12);
  CHECK(s.works.front().name == "step");  // the longest first
  uint64_t records = 0;
  for (const auto& rows : {s.actors, s.works})
    for (const auto& r : rows) records += r.count;
  CHECK(records == s.records);
  const auto json = nlohmann::json::parse(stats_json(s));
  CHECK(json["messages"].size() == s.messages.size());
  CHECK(json["records"] == s.records);
}

TEST_CASE("stats: time on the way and time in the mailbox are told apart") {
  trace_maker m;
  m.way_share = 0.75;
  const auto a = m.process("a", 0, 0), b = m.process("b", 500, 0);
  const auto run = m.add(a, "run"), stage = m.add(b, "stage/0"), worker = m.add(b, "worker/0");
  for (int i = 0; i < 10; ++i)
    m.handle("RunStep", run, stage, 20 * i, 20 * i + 8, 20 * i + 9, 1, 1);
  m.handle("RunOp", stage, worker, 300, 308, 309, 1, 1);
  const auto s = stats_of(m.build());
  const auto row = [](const std::vector<stats_row>& rows, const std::string& name) {
    const auto it =
        std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
    REQUIRE(it != rows.end());
    return *it;
  };
  const auto& step = row(s.messages, "RunStep");
  CHECK(step.waiting.p50_ns == ms(8));
  CHECK(static_cast<double>(step.way.p99_ns) == doctest::Approx(ms(6)).epsilon(1e-6));
  CHECK(static_cast<double>(step.mailbox.p50_ns) == doctest::Approx(ms(2)).epsilon(1e-6));
  CHECK(row(s.actors, "worker/0").way.max_ns == 0);
  CHECK(row(s.actors, "worker/0").mailbox.max_ns == ms(8));
  const auto text = stats_text(s, 0, 0);
  CHECK(text.find("way p50") != text.npos);
  CHECK(text.find("in mailbox p50") != text.npos);
  CHECK(text.find("worker/0", text.find("waiting, by actor")) == text.npos);  // nothing travelled
  const auto json = nlohmann::json::parse(stats_json(s));
  for (const auto& r : json["messages"]) {
    if (r["name"] != "RunStep") continue;
    CHECK(r["on_the_way"]["p90_ns"].get<double>() == doctest::Approx(ms(6)).epsilon(1e-6));
    CHECK(r["in_mailbox"]["sum_ns"].get<double>() == doctest::Approx(ms(20)).epsilon(1e-6));
  }
}

TEST_CASE("stats: the table keeps to the terminal and says what it leaves out") {
  const auto s = stats_of(two_stage_step().build());
  const auto text = stats_text(s, 100, 2);
  CHECK(text.find("RunOp") == std::string::npos);
  CHECK(text.find("... and ") != std::string::npos);
  CHECK(text.find("note: times of different processes agree to within 0.050 ms") !=
        std::string::npos);
  for (size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    CHECK(end - at <= 110);
    if (end > at) CHECK(text[end - 1] != ' ');
    at = end + 1;
  }
}

TEST_CASE("text: durations, bytes, shares, tables") {
  const std::pair<int64_t, const char*> durations[] = {{0, "0 ns"},
                                                       {999, "999 ns"},
                                                       {1000, "1.0 us"},
                                                       {99'949, "99.9 us"},
                                                       {999'499, "999 us"},
                                                       {999'500, "1.0 ms"},
                                                       {41'000'000, "41.0 ms"},
                                                       {999'499'999, "999 ms"},
                                                       {1'234'000'000, "1.23 s"},
                                                       {75'000'000'000, "75 s"},
                                                       {-1500, "-1.5 us"}};
  for (const auto& [ns, text] : durations) CHECK(duration_text(ns) == text);
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(1u << 20) == "1.0 MiB");
  for (const auto& parts : std::vector<std::vector<int64_t>>{
           {1, 1, 1}, {0, 0}, {5}, {1, 2, 3, 4, 5, 6, 7}, {999, 1}, {1, 1'000'000'000'000}}) {
    const auto s = shares(parts);
    const auto whole = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    CHECK(std::accumulate(s.begin(), s.end(), 0) == (whole > 0 ? 1000 : 0));
  }
  CHECK(cut("abcdefghij", 6) == "ab..ij");
  CHECK(cut("abc", 6) == "abc");
  CHECK(table_text({{"name", "n"}, {"a", "100"}}, 0) == "name    n\na     100\n");
  CHECK(table_text({{"a-very-long-name-indeed", "n"}}, 18) == "a-very-..indeed  n\n");
}

TEST_CASE(
    "a table that is too wide gives way where it matters least, and no further than it must") {
  const std::vector<std::vector<std::string>> rows{
      {"actor", "state", "n", "last error"},
      {"worker/0", "computing", "12345", "0123456789abcdefghij"}};
  const std::vector<column_limit> gives_way{{3, 10}, {1, 7}, {2}};
  const auto lines = [&](int columns) { return table_text(rows, columns, gives_way); };
  CHECK(lines(0).find("0123456789abcdefghij\n") != std::string::npos);
  CHECK(lines(48) == lines(0));
  CHECK(lines(46).ends_with("worker/0  computing  12345  01234567..cdefghij\n"));
  CHECK(lines(38).ends_with("worker/0  computing  12345  0123..ghij\n"));
  CHECK(lines(36).ends_with("worker/0  com..ng  12345  0123..ghij\n"));
  // Without the number there is room for more of the others again.
  CHECK(lines(33).ends_with("worker/0  computing  01234..fghij\n"));
  for (int columns = 30; columns < 50; ++columns)
    for (std::istringstream text(lines(columns)); text;) {
      std::string line;
      std::getline(text, line);
      CHECK(line.size() <= static_cast<size_t>(columns));
    }
}
