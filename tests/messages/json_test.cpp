// JSON <-> message by the embedded schema: every registered table with generated values keeps every
// bit of them; wrong JSON is refused with the place and the fields there are.
#include <limits>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/rejection.hpp"
#include "messages/schemas/troupe_generated.h"
#include "tests/errors.hpp"
#include "tests/messages/enum_names.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

class generator {
 public:
  explicit generator(uint64_t seed) : random_(seed) {}

  json table(std::string_view name, int depth = 0) {
    json out = json::object();
    for (const auto& field : table_fields(name)) out[std::string(field.name)] = value(field, depth);
    return out;
  }

 private:
  json value(const field_info& field, int depth) {
    bool list = field.type.front() == '[';
    auto element = list ? field.type.substr(1, field.type.size() - 2) : field.type;
    if (!list) return one(element, field.nested, depth);
    json out = json::array();
    auto n = depth < 3 ? random_() % 4 : 0;
    for (size_t i = 0; i < n; ++i) out.push_back(one(element, field.nested, depth));
    return out;
  }

  json one(const std::string& type, const std::string& nested, int depth) {
    if (!nested.empty()) {
      auto names = enum_names(nested);
      if (!names.empty()) return names[random_() % names.size()];
      return table(nested, depth + 1);
    }
    if (type == "bool") return random_() % 2 == 0;
    if (type == "byte") return static_cast<int8_t>(random_() % 128);  // -1 is what is not known
    if (type == "ubyte") return static_cast<uint8_t>(random_());
    if (type == "short") return static_cast<int16_t>(random_() % 32768);  // -1: as of byte
    if (type == "ushort") return static_cast<uint16_t>(random_());
    if (type == "int") return static_cast<int32_t>(random_());
    if (type == "uint") return static_cast<uint32_t>(random_());
    if (type == "long") return static_cast<int64_t>(random_());
    if (type == "ulong") return random_();
    // A text has the digits that tell a float from its neighbours: of eighths these are all.
    if (type == "float") return static_cast<double>(static_cast<int16_t>(random_())) / 8;
    if (type == "double") return real();
    REQUIRE(type == "string");
    static const char* texts[] = {"", "plain", "\"quoted\" \\ / \n\t", "grüße ☃ 𝄞", "\x01\x1f"};
    return texts[random_() % std::size(texts)];
  }

  double real() {
    double exponent = std::uniform_real_distribution<double>(-30, 30)(random_);
    double sign = random_() % 2 == 0 ? 1 : -1;
    return sign * std::pow(10.0, exponent) * std::uniform_real_distribution<double>(1, 10)(random_);
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("every registered table round-trips through JSON with generated values") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    generator g(seed);
    for (const auto& info : all_messages()) {
      CAPTURE(seed);
      CAPTURE(info.name);
      auto wanted = g.table(info.name);
      auto m = from_json(info.name, wanted.dump());
      if (!m) FAIL(render(m.error()) << "\n" << wanted.dump());
      CHECK(m->type() == info.id);
      auto text = to_json(*m);
      CHECK(json::parse(text) == wanted);
      auto again = from_json(info.full_name, text);
      REQUIRE(again);
      CHECK(to_json(*again) == text);
      auto sent = decode(encode(*m), info.id);
      REQUIRE(sent);
      CHECK(to_json(*sent) == text);
    }
  }
}

TEST_CASE("JSON keeps small, large and non-finite numbers") {
  for (double lr : {3e-4, 1e-13, 5e-324, 1.7976931348623157e308, -0.1, 2.9134567890123456}) {
    auto m = make_msg<fbs::RunStep>({}, [&](auto& x) { x.lr = lr; });
    CHECK(json::parse(to_json(m))["lr"].get<double>() == lr);
    CHECK(cast<fbs::RunStep>(*from_json("RunStep", to_json(m)))->lr() == lr);
  }
  auto inf = std::numeric_limits<double>::infinity();
  for (auto [value, text] : {std::pair{inf, "inf"}, {-inf, "-inf"}, {inf - inf, "nan"}}) {
    auto m = make_msg<fbs::RunStep>({}, [&, v = value](auto& x) { x.lr = v; });
    CHECK(json::parse(to_json(m))["lr"] == text);
    auto back = cast<fbs::RunStep>(*from_json("RunStep", to_json(m)))->lr();
    CHECK((back == value || (back != back && value != value)));
  }
  auto most = std::numeric_limits<uint64_t>::max();
  auto m = make_msg<fbs::RunStep>({}, [&](auto& x) { x.step = most; });
  CHECK(json::parse(to_json(m))["step"].get<uint64_t>() == most);
}

TEST_CASE("fields come in the order of the schema, absent strings not at all") {
  auto m = make_msg<fbs::Failure>({}, [](auto& x) {
    x.code = 3;
    x.message = "text";
  });
  CHECK(to_json(m) == R"({"code":3,"message":"text"})");
  CHECK(to_json(any_msg{}) == "null");
}

TEST_CASE("RG-4: what was not measured is not told, and a measured zero is") {
  const auto m = make_msg<fbs::MeterReadings>({}, [](fbs::MeterReadingsT& all) {
    all.devices.push_back(std::make_unique<fbs::DeviceReadingT>());
    all.devices.back()->device = "gpu0";
    all.devices.back()->power_w = 0;
  });
  const auto told = json::parse(to_json(m));
  CHECK_FALSE(told.contains("temperature_c"));
  const auto& gpu = told["devices"][0];
  CHECK(gpu["power_w"] == 0);
  for (const char* absent : {"limit_w", "temperature_c", "busy_percent", "energy_j"})
    CHECK_FALSE(gpu.contains(absent));
  const auto back = from_json("MeterReadings", to_json(m));
  REQUIRE(back);
  CHECK(cast<fbs::MeterReadings>(*back)->temperature_c() == -300);
  CHECK(cast<fbs::MeterReadings>(*back)->devices()->Get(0)->power_w() == 0);
  CHECK(cast<fbs::MeterReadings>(*back)->devices()->Get(0)->limit_w() == -1);
}

TEST_CASE("a string that is not UTF-8 still becomes valid JSON") {
  auto m = make_msg<fbs::Ack>({}, [](auto& x) { x.text = "a\xff\xc3z"; });
  CHECK(json::parse(to_json(m))["text"].get<std::string>() == "a\xef\xbf\xbd\xef\xbf\xbdz");
}

TEST_CASE("a header given with JSON is the message's") {
  message_context context;
  context.epoch = 12;
  context.span = 9;
  auto m = from_json("Pause", R"({"reason":"lunch"})", context);
  REQUIRE(m);
  CHECK(m->epoch() == 12);
  CHECK(m->header().span == 9);
  CHECK(cast<fbs::Pause>(*m)->reason()->str() == "lunch");
}

TEST_CASE("wrong JSON is refused, counted, and told what there is") {
  struct row {
    const char* name;
    std::string text;
    std::string_view fact;
  };
  const row table[] = {
      {"Failure", R"({"codes":1})", "codes"},
      {"Failure", R"({"code":256})", "code"},
      {"Failure", R"({"code":-1})", "code"},
      {"Failure", R"({"code":"x"})", ""},
      {"Failure", R"({"message":7})", ""},
      {"Failure", R"({"code":1,"code":2})", "code"},
      {"Failure", R"({code:1})", ""},
      {"Failure", R"({"code":1)", ""},
      {"Failure", R"({"code":1} {})", ""},
      {"Failure", "", ""},
      {"Failure", "[]", ""},
      {"Failure", "table X { }", ""},
      {"RunOp", R"({"kind":"sideways"})", "sideways"},
      {"Assign", R"({"ranks":[{"rank":"a"}]})", ""},
  };
  for (const auto& r : table) {
    INFO(r.text);
    auto before = counts().of(reject::json);
    auto m = from_json(r.name, r.text);
    REQUIRE_FALSE(m);
    CHECK(is_error(m, message_json_wrong, r.name, r.fact));
    CHECK(counts().of(reject::json) == before + 1);
  }
  CHECK(from_json("Failure", std::string("{}\0x", 4)).error() == message_json_nul("Failure"));
  CHECK(is_error(from_json("Failure", R"({"codes":1})"), message_json_wrong,
                 "code, message, hint, kind"));
  CHECK(from_json("Failur", "{}").error().code == errc::not_found);
  CHECK(from_json("Failure", R"({"code":1})"));
  auto deep = std::string(100'000, '[');
  CHECK_FALSE(from_json("Assign", R"({"ranks":)" + deep));
  std::string long_text(size_t{2} << 20, 'x');
  auto big = from_json("Ack", R"({"text":")" + long_text + R"("})");
  REQUIRE_FALSE(big);
  CHECK(mentions(big.error(), 1048576));
}
