// Hostile bytes in memory: every truncation, every single bit flip, every lie about length, type
// and content is refused with the right reason, counted once, and never read out of bounds (run it
// under the asan preset).
#include <chrono>
#include <cstring>
#include <random>

#include <doctest/doctest.h>
#include <spdlog/spdlog.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include "messages/errors.hpp"
#include "messages/inspect.hpp"
#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/rejection.hpp"
#include "messages/schemas/troupe_generated.h"

using namespace troupe;

namespace {

using bytes = std::vector<uint8_t>;

msg<fbs::Status> sample() {
  message_context context;
  context.epoch = 2;
  context.trace_low = 77;
  return make_msg<fbs::Status>(context, [](auto& x) {
    x.actor = "stage/0";
    x.state = "running";
    x.values = std::make_unique<fbs::StatusValuesT>();
    x.values->stage = std::make_unique<fbs::StageStatusT>();
    x.since_ns = 5;
  });
}

message_header header_of(const bytes& wire) {
  message_header header;
  std::memcpy(&header, wire.data(), sizeof(header));
  return header;
}

std::span<const uint8_t> payload_of(const bytes& wire) {
  return std::span(wire).subspan(sizeof(message_header),
                                 wire.size() - sizeof(message_header) - trailer_bytes);
}

// The wire form of a lie, with honest checksums, so that later checks are reached.
bytes resealed(const message_header& header, std::span<const uint8_t> payload) {
  return detail::wire_image(detail::sealed(header), payload);
}

// Runs one refusal and says which reason grew; fails unless exactly one did, by one.
template <class F>
reject reason_of(F&& refused) {
  auto before = counts();
  refused();
  auto after = counts();
  REQUIRE(after.all_rejected() == before.all_rejected() + 1);
  for (size_t i = 0; i < reject_count; ++i)
    if (after.rejected[i] != before.rejected[i]) return static_cast<reject>(i);
  return reject::unexpected;
}

reject decode_reason(const bytes& wire, uint16_t expected = 0) {
  return reason_of([&] {
    auto m = decode(wire, expected);
    REQUIRE_FALSE(m);
    CHECK(m.error().code == errc::bad_data);
  });
}

struct quiet {
  spdlog::level::level_enum level = spdlog::get_level();
  quiet() { spdlog::set_level(spdlog::level::off); }
  ~quiet() { spdlog::set_level(level); }
};

// Reads bytes through CAF's deserializer, as from a peer.
caf::error load_through_caf(caf::actor_system& system, const bytes& wire, msg<fbs::Status>& out) {
  caf::binary_deserializer source(system, reinterpret_cast<const char*>(wire.data()), wire.size());
  return inspect(source, out);
}

}  // namespace

TEST_CASE("what was encoded decodes to the same message") {
  auto m = sample();
  auto wire = encode(m);
  auto back = decode(wire, m.type());
  REQUIRE(back);
  CHECK(*back == m);
  CHECK(cast<fbs::Status>(*back)->actor()->str() == "stage/0");
  CHECK(header_of(wire).checksum != 0);
}

TEST_CASE("a message knows when it came into this process, if it did") {
  using namespace std::chrono;
  const auto now = [] {
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
  };
  caf::actor_system_config config;
  caf::actor_system system(config);
  const auto made = sample();
  CHECK(made.received_ago_ns(now()) < 0);
  const auto before = now();
  msg<fbs::Status> got;
  REQUIRE_FALSE(load_through_caf(system, encode(made), got));
  const auto after = now();
  constexpr int64_t second = 1'000'000'000, unit = 1024;
  for (const int64_t later : {int64_t{0}, second, 60 * second, 3'600 * second}) {
    CAPTURE(later);
    CHECK(got.received_ago_ns(after + later) >= later - unit);
    CHECK(got.received_ago_ns(after + later) <= later + after - before + unit);
  }
  CHECK(got.received_ago_ns(before - second / 10) == 0);  // by a clock that is a little behind
  CHECK(readdress(got, {}).received_ago_ns(after) < 0);
}

TEST_CASE("a message truncated at every length is refused") {
  quiet q;
  auto wire = encode(sample());
  for (size_t n = 0; n < wire.size(); ++n) {
    CAPTURE(n);
    CHECK(decode_reason({wire.begin(), wire.begin() + static_cast<ptrdiff_t>(n)}) ==
          reject::truncated);
  }
  auto longer = wire;
  longer.push_back(0);
  CHECK(decode_reason(longer) == reject::truncated);
}

TEST_CASE("a message truncated at every length is refused by CAF's deserializer") {
  quiet q;
  caf::actor_system_config config;
  caf::actor_system system(config);
  auto wire = encode(sample());
  for (size_t n = 0; n < wire.size(); ++n) {
    CAPTURE(n);
    bytes cut(wire.begin(), wire.begin() + static_cast<ptrdiff_t>(n));
    msg<fbs::Status> out;
    auto reason = reason_of([&] { CHECK(load_through_caf(system, cut, out)); });
    CHECK(reason == reject::truncated);
    CHECK_FALSE(out);
  }
  msg<fbs::Status> out;
  CHECK_FALSE(load_through_caf(system, wire, out));
  CHECK(out == sample());
}

TEST_CASE("every single bit flip of a message is refused") {
  quiet q;
  auto wire = encode(sample());
  for (size_t bit = 0; bit < wire.size() * 8; ++bit) {
    CAPTURE(bit);
    auto flipped = wire;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    decode_reason(flipped);
  }
}

TEST_CASE("every single bit flip with a forged checksum is refused or reads in bounds") {
  quiet q;
  auto wire = encode(sample());
  size_t accepted = 0;
  size_t refused = 0;
  auto payload = payload_of(wire);
  for (size_t bit = 0; bit < payload.size() * 8; ++bit) {
    bytes flipped(payload.begin(), payload.end());
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    auto m = decode(resealed(header_of(wire), flipped));
    if (!m) {
      ++refused;
      continue;
    }
    ++accepted;
    fbs::StatusT all;
    cast<fbs::Status>(*m)->UnPackTo(&all);  // touches every field
  }
  CHECK(accepted > 0);
  CHECK(refused > 0);
}

TEST_CASE("a table of lies, each refused for its own reason") {
  quiet q;
  auto wire = encode(sample());
  auto honest = header_of(wire);
  bytes payload(payload_of(wire).begin(), payload_of(wire).end());
  struct row {
    const char* what;
    reject reason;
    void (*lie)(message_header&, bytes&);
  };
  const row table[] = {
      {"another layout", reject::form, [](message_header& h, bytes&) { h.form = 0xf2; }},
      {"no layout", reject::form, [](message_header& h, bytes&) { h.form = 0; }},
      {"a type nobody knows", reject::type, [](message_header& h, bytes&) { h.type = 0xffff; }},
      {"type 0", reject::type, [](message_header& h, bytes&) { h.type = 0; }},
      {"4 GiB - 1", reject::oversize, [](message_header& h, bytes&) { h.length = 0xffffffff; }},
      {"2 GiB", reject::oversize, [](message_header& h, bytes&) { h.length = 0x80000000; }},
      {"1 MiB + 1", reject::oversize,
       [](message_header& h, bytes&) { h.length = max_message_bytes + 1; }},
      {"1 MiB that is not there", reject::truncated,
       [](message_header& h, bytes&) { h.length = max_message_bytes; }},
      {"one byte too many claimed", reject::truncated,
       [](message_header& h, bytes&) { ++h.length; }},
      {"one byte too few claimed", reject::truncated,
       [](message_header& h, bytes&) { --h.length; }},
      {"the content of another table", reject::verify,
       [](message_header& h, bytes&) { h.type = message_traits<fbs::Assign>::id; }},
      {"no content", reject::verify,
       [](message_header& h, bytes& p) {
         p.clear();
         h.length = 0;
       }},
      {"a root beyond the end", reject::verify, [](message_header&, bytes& p) { p[3] = 0x7f; }},
      {"all ones", reject::verify, [](message_header&, bytes& p) { p.assign(p.size(), 0xff); }},
  };
  for (const auto& r : table) {
    INFO(r.what);
    auto header = honest;
    auto content = payload;
    r.lie(header, content);
    CHECK(decode_reason(resealed(header, content)) == r.reason);
  }
  CHECK(decode_reason(wire, message_traits<fbs::Pause>::id) == reject::type);
  for (size_t at : {offsetof(message_header, checksum), offsetof(message_header, length),
                    offsetof(message_header, epoch), sizeof(message_header), wire.size() - 1}) {
    CAPTURE(at);
    auto forged = wire;
    forged[at] ^= 1;
    CHECK(decode_reason(forged) == reject::checksum);
  }
}

TEST_CASE("a deprecated field, which no verifier looks at, is not looked at either") {
  const auto wire =
      encode(make_msg<fbs::Welcome>({}, [](fbs::WelcomeT& w) { w.config_toml = "x"; }));
  bytes payload(payload_of(wire).begin(), payload_of(wire).end());
  const auto table = flatbuffers::ReadScalar<uint32_t>(payload.data());
  const auto vtable = table - flatbuffers::ReadScalar<int32_t>(payload.data() + table);
  constexpr size_t heartbeat_interval_ms = 8;  // its place there: far beyond the end, it says now
  flatbuffers::WriteScalar<uint16_t>(payload.data() + vtable + heartbeat_interval_ms, 0xfff0);
  const auto m = decode(resealed(header_of(wire), payload));
  REQUIRE(m);
  CHECK(to_json(*m) == R"({"epoch":0,"node_index":0,"config_toml":"x"})");
}

TEST_CASE("random bytes behind an honest header never crash a reader") {
  quiet q;
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 20'000; ++round) {
    auto wire = encode(sample());
    auto header = header_of(wire);
    bytes payload(payload_of(wire).begin(), payload_of(wire).end());
    for (int k = 0; k < 4; ++k) payload[random() % payload.size()] = static_cast<uint8_t>(random());
    auto m = decode(resealed(header, payload));
    if (m) {
      fbs::StatusT all;
      cast<fbs::Status>(*m)->UnPackTo(&all);
    }
  }
}

namespace {

/// `build` makes a message that refers to one thing so many times: twice is well, 100,000 is not.
template <class F>
void check_references(F&& build) {
  quiet q;
  for (uint32_t references : {2u, 100'000u}) {
    auto m = build(references);
    REQUIRE(m);
    auto wire = encode(*m);
    if (references == 2)
      CHECK(decode(wire));
    else
      CHECK(decode_reason(wire) == reject::verify);
  }
}

}  // namespace

TEST_CASE("AM-4: one string referred to a hundred thousand times does not verify") {
  check_references([](uint32_t references) {
    return try_build_msg<fbs::Hello>({}, [&](message_builder& b) {
      auto text = b.CreateString(std::string(100'000, 'x'));
      std::vector<flatbuffers::Offset<flatbuffers::String>> all(references, text);
      auto gpus = b.CreateVector(all);
      fbs::HardwareFactsBuilder facts(b);
      facts.add_gpus(gpus);
      auto hardware = facts.Finish();
      fbs::HelloBuilder hello(b);
      hello.add_hardware(hardware);
      return hello.Finish();
    });
  });
}

TEST_CASE("a table referred to a hundred thousand times does not verify") {
  check_references([](uint32_t references) {
    return try_build_msg<fbs::Assign>({}, [&](message_builder& b) {
      fbs::RankAssignmentBuilder one(b);
      auto rank = one.Finish();
      std::vector<flatbuffers::Offset<fbs::RankAssignment>> all(references, rank);
      auto ranks = b.CreateVector(all);
      fbs::AssignBuilder assign(b);
      assign.add_ranks(ranks);
      return assign.Finish();
    });
  });
}

TEST_CASE("RJ-1: each refusal of a flood is counted") {
  auto before = counts().of(reject::oversize);
  for (int i = 0; i < 10'000; ++i) note_rejection(reject::oversize, 0x0101, "flood");
  CHECK(counts().of(reject::oversize) == before + 10'000);
}

TEST_CASE("RJ-3: a refusal's line names the message and says why") {
  const auto* pause = find_message("Pause");
  REQUIRE(pause != nullptr);
  CHECK(rejection_text(reject::forbidden, pause->id, "bob (reader) to run", 0) ==
        "Pause was refused: its sender's role does not let it say that (forbidden): bob (reader) "
        "to run");
  const auto unknown = rejection_text(reject::type, 0xfffe, "from afar", 3);
  CHECK(unknown.starts_with("a message of type 0xfffe was refused: "));
  CHECK(unknown.ends_with("(type): from afar; 3 more like it since the last line"));
  CHECK(rejection_text(reject::undecodable, 0, "", 0).starts_with("a message was refused: "));
  for (size_t i = 0; i < reject_count; ++i)
    CHECK_FALSE(rejection_text(static_cast<reject>(i), 0, "", 0).empty());
}

TEST_CASE("RJ-2: refusals are logged, but not each of a flood") {
  detail::flood_log log;
  constexpr auto interval_ns = detail::flood_log::interval_ns;
  CHECK(log.note(7) == 0);  // the first at once
  for (int i = 1; i < 10'000; ++i) REQUIRE_FALSE(log.note(7 + i));
  CHECK_FALSE(log.note(7 + interval_ns - 1));
  CHECK(log.note(7 + interval_ns) == 10'000);
  CHECK_FALSE(log.note(7 + interval_ns));
  CHECK(log.note(7 + 3 * interval_ns) == 1);
  CHECK(log.count() == 10'004);
}
