// Trace files: what is written is read; what is cut or damaged is read up to there; what is unsound
// is refused.
#include "trace/trace_file.hpp"

#include <bit>
#include <fstream>
#include <limits>

#include "tests/errors.hpp"
#include "tests/fuzz/trace_bytes.hpp"
#include "tests/io/scratch.hpp"
#include "tests/trace/sample.hpp"

using namespace troupe;
using namespace troupe::trace;

namespace {

std::string file_of(const std::filesystem::path& path) {
  auto text = io::read_file(path, 64u << 20);
  REQUIRE(text);
  return *text;
}

void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void write(const std::filesystem::path& path, const std::vector<msg<fbs::TraceBatch>>& batches) {
  auto w = trace_writer::create(path);
  REQUIRE(w);
  for (const auto& b : batches) REQUIRE(w->append(b));
  REQUIRE(w->finish());
  CHECK(w->size() == std::filesystem::file_size(path));
  CHECK(w->batches() == batches.size());
}

fbs::TraceBatchT batch_with(const trace_record& r) {
  batch_head head;
  head.process = 5;
  batch_content c;
  c.records = {r};
  c.works = {"forward"};
  auto made = make_batches(head, std::move(c));
  return std::move(made.front());
}

trace_record sound() {
  trace_record r;
  r.begin_ns = 1000;
  r.span = 1;
  r.handling_s = 1e-6F;
  r.type = 1;
  r.kind = record_kind::work;
  return r;
}

bool accepted(const trace_record& r) {
  batch_checker checker;
  return bool(checker.check(*make_msg<fbs::TraceBatch>(message_context{}, batch_with(r))));
}

}  // namespace

TEST_CASE("trace file: what is written is read, by file and from memory") {
  scratch dir;
  const auto path = dir / "a.trace";
  const auto batches = two_stage_step().batches();
  write(path, batches);
  auto reader = trace_reader::open(path);
  REQUIRE(reader);
  for (const auto& b : batches) {
    auto got = reader->next();
    REQUIRE(got);
    REQUIRE(*got);
    CHECK(**got == b);
  }
  auto end = reader->next();
  REQUIRE(end);
  CHECK_FALSE(*end);
  CHECK(reader->good_bytes() == std::filesystem::file_size(path));
}

TEST_CASE("trace file TF-2: cut anywhere, everything before the cut is read and the place named") {
  scratch dir;
  const auto path = dir / "a.trace";
  const auto batches = two_stage_step().batches();
  write(path, batches);
  const auto whole = file_of(path);
  std::vector<size_t> ends{file_magic.size()};
  for (const auto& b : batches) ends.push_back(ends.back() + 4 + encode(b).size());
  REQUIRE(ends.back() == whole.size());
  for (size_t length = 0; length <= whole.size(); length += length % 97 == 0 ? 1 : 13) {
    CAPTURE(length);
    put(dir / "cut.trace", whole.substr(0, length));
    auto contents = read_traces({dir / "cut.trace"});
    if (length < file_magic.size()) {
      REQUIRE_FALSE(contents);
      CHECK(contents.error().code == errc::bad_data);
      continue;
    }
    REQUIRE(contents);
    const auto whole_ones =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), length) - ends.begin() - 1);
    CHECK(contents->batches.size() == whole_ones);
    const bool at_end = ends[whole_ones] == length;
    CHECK(contents->damage.size() == (at_end ? 0 : 1));
    if (!at_end) CHECK(mentions(contents->damage.front(), ends[whole_ones]));
  }
}

TEST_CASE("trace file TF-2: a flipped bit is found wherever it is") {
  scratch dir;
  const auto path = dir / "a.trace";
  write(path, two_stage_step().batches());
  const auto whole = file_of(path);
  auto all = read_traces({path});
  REQUIRE(all);
  for (size_t at = 0; at < whole.size(); at += 7) {
    CAPTURE(at);
    auto bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    put(dir / "bad.trace", bytes);
    auto contents = read_traces({dir / "bad.trace"});
    if (!contents) continue;
    CHECK(contents->damage.size() == 1);
    CHECK(contents->batches.size() < all->batches.size());
  }
}

TEST_CASE("limits: a trace of more processes than any cluster has is refused") {
  batch_checker checker;
  const auto accepted_of = [&](uint32_t process) {
    return checker.check(*make_msg<fbs::TraceBatch>({}, [&](auto& b) { b.process = process; }));
  };
  size_t processes = 0;
  while (processes < batch_checker::process_limit && accepted_of(static_cast<uint32_t>(processes)))
    ++processes;
  CHECK(processes == batch_checker::process_limit);
  const auto one_more = accepted_of(static_cast<uint32_t>(processes));
  REQUIRE_FALSE(one_more);
  CHECK(one_more.error() == too_many_processes(batch_checker::process_limit));
  CHECK(accepted_of(0));
}

TEST_CASE("trace file: foreign files and other versions are told apart") {
  scratch dir;
  put(dir / "other", "troupe trace 1\nxyz");
  put(dir / "text", "hello, this is text");
  auto other = trace_reader::open(dir / "other"), text = trace_reader::open(dir / "text");
  REQUIRE_FALSE(other);
  REQUIRE_FALSE(text);
  CHECK(is_error(other, trace_of_another_version, dir / "other"));
  CHECK(is_error(text, no_trace, dir / "text"));
  auto none = trace_reader::open(dir / "none");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::not_found);
}

TEST_CASE("trace file TF-1: a length that no message has is refused before memory is taken") {
  for (const uint32_t length : {0u, 67u, max_entry_bytes + 1, 0x7fffffffu, 0xffffffffu}) {
    std::string bytes(file_magic);
    bytes.append(reinterpret_cast<const char*>(&length), 4);
    const file_of_bytes there({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    auto reader = trace_reader::open(there.path());
    REQUIRE(reader);
    auto got = reader->next();
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::bad_data);
    CHECK_FALSE(reader->next());  // and again
  }
}

TEST_CASE("trace file TF-4: unsound records are refused") {
  CHECK(accepted(sound()));
  struct fault {
    const char* what;
    void (*make)(trace_record&);
  };
  const fault faults[] = {
      {"kind", [](auto& r) { r.kind = static_cast<record_kind>(9); }},
      {"work name", [](auto& r) { r.type = 2; }},
      {"negative", [](auto& r) { r.handling_s = -1; }},
      {"nan", [](auto& r) { r.mailbox_s = std::numeric_limits<float>::quiet_NaN(); }},
      {"no number",
       [](auto& r) {
         r.kind = record_kind::counter;
         r.sender = std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
       }},
      {"counter's name",
       [](auto& r) {
         r.kind = record_kind::counter;
         r.type = 2;
       }},
      {"came later", [](auto& r) { r.mailbox_s = -1; }},
      {"sent", [](auto& r) { r.sent_ns = std::numeric_limits<int64_t>::max(); }},
      {"inf", [](auto& r) { r.handling_s = std::numeric_limits<float>::infinity(); }},
      {"long", [](auto& r) { r.handling_s = 2e9F; }},
      {"begin", [](auto& r) { r.begin_ns = time_bound_ns; }},
      {"begin", [](auto& r) { r.begin_ns = std::numeric_limits<int64_t>::min(); }},
  };
  for (const auto& f : faults) {
    auto r = sound();
    f.make(r);
    CAPTURE(f.what);
    CHECK_FALSE(accepted(r));
  }
  batch_checker checker;
  auto torn = batch_with(sound());
  torn.records.pop_back();
  CHECK_FALSE(checker.check(*make_msg<fbs::TraceBatch>(message_context{}, torn)));
  auto clock = batch_with(sound());
  clock.offset_ns = std::numeric_limits<int64_t>::max();
  CHECK_FALSE(checker.check(*make_msg<fbs::TraceBatch>(message_context{}, clock)));
}

TEST_CASE("trace file: names of work hold for the later batches of their process, not for others") {
  batch_checker checker;
  auto first = batch_with(sound()), later = batch_with(sound()), other = batch_with(sound());
  later.works.clear();
  other.works.clear();
  other.process = 6;
  CHECK_FALSE(checker.check(*make_msg<fbs::TraceBatch>(message_context{}, later)));
  CHECK(checker.check(*make_msg<fbs::TraceBatch>(message_context{}, first)));
  CHECK(checker.check(*make_msg<fbs::TraceBatch>(message_context{}, later)));
  CHECK_FALSE(checker.check(*make_msg<fbs::TraceBatch>(message_context{}, other)));
}

TEST_CASE("trace file: several files are one trace, a limit bounds it") {
  scratch dir;
  write(dir / "a.trace", two_stage_step().batches());
  write(dir / "b.trace", two_stage_step().batches());
  auto both = read_traces({dir / "a.trace", dir / "b.trace"});
  REQUIRE(both);
  auto one = read_traces({dir / "a.trace"});
  REQUIRE(one);
  CHECK(both->records == 2 * one->records);
  auto limited = read_traces({dir / "a.trace"}, 3);
  REQUIRE_FALSE(limited);
  CHECK(limited.error().code == errc::no_memory);
  const auto t = timeline::build(std::move(*both));
  CHECK(t.counts().duplicates == one->records);
  CHECK(t.events().size() == one->records);
}
