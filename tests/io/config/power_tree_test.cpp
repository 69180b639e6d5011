// POWER.toml: what is read, what is refused and where, the example that is shipped.
#include "io/config/power_tree.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/tls/certs.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::config;

namespace {

const std::string row_of_70 = "name = 'row0'\nbudget_w = 70\n";

/// A [[child]] of five lines.
std::string power_child_text(const std::string& name, const std::string& watts = "20, 40, 60") {
  std::string out = "[[child]]\nname = '" + name + "'\n";
  const char* keys[] = {"floor_w", "static_w", "ceiling_w"};
  size_t at = 0;
  for (const auto* key : keys) {
    const auto end = std::min(watts.find(", ", at), watts.size());
    out += fmt::format("{} = {}\n", key, watts.substr(at, end - at));
    at = end + 2;
  }
  return out;
}

result<power_tree> power_tree_from(const std::string& text) {
  return parse_power_tree(text, "p.toml");
}

const std::string with_tls = "tls = {ca = 'ca.pem', certificate = '{node}.pem', key = 'k.key'}\n";

/// A file, and where and how it is refused.
struct wrong {
  std::string text, place, what;
};

void check_refused(const wrong& w) {
  CAPTURE(w.text.substr(0, 300));
  const auto got = power_tree_from(w.text);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == errc::bad_config);
  const auto text = render(got.error());
  CAPTURE(text);
  CHECK(text.find(w.place) != std::string::npos);
  CHECK(text.find(w.what) != std::string::npos);
}

}  // namespace

TEST_CASE("power tree: what is not said has its default") {
  const auto got =
      power_tree_from(row_of_70 + power_child_text("gpt-a") + "priority = 'high'\npaused_w = 5\n" +
                      power_child_text("gpt-b", "0, 30.0, 30"));
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  power_tree want;
  want.name = "row0";
  want.budget_w = 70;
  want.noise_w = 0.2;
  want.output = "power/row0";
  want.child = {{"gpt-a", power_priority::high, 20, 40, 60, 5},
                {"gpt-b", power_priority::low, 0, 30, 30, 0}};
  CHECK(got->noise_w == doctest::Approx(want.noise_w));
  want.noise_w = got->noise_w;
  CHECK((*got == want));
  CHECK(want.tick_ms == 1000);
  CHECK(want.lease_ttl_ms == 10'000);
  CHECK(want.port == 0);
}

TEST_CASE("power tree: the noise that is not said is little for the smallest child, too") {
  const auto noise_of = [](const std::string& watts) {
    const auto got = power_tree_from("name = 'row0'\nbudget_w = 10000\n" +
                                     power_child_text("large", "300, 400, 900") +
                                     power_child_text("small", watts));
    REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
    return got->noise_w;
  };
  CHECK(noise_of("2, 5, 9") == doctest::Approx(0.02));
  CHECK(noise_of("0, 5, 9") == doctest::Approx(0.05));
  CHECK(noise_of("0, 0, 9") == doctest::Approx(0.09));
  CHECK(noise_of("500, 600, 900") == doctest::Approx(3));
}

TEST_CASE("power tree: what is said is taken") {
  const auto got = power_tree_from(
      row_of_70 +
      "mode = 'shares'\nbrake = 'manual'\nlisten = 'localhost'\nport = 4242\ntick_ms = 200\n"
      "lease_ttl_ms = 4500\nnoise_w = 0\noutput = 'out/p'\n"
      "follow = 'demand.csv'\ntextfile = 'row0.prom'\n" +
      power_child_text("a"));
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->brake == power_brake::manual);
  CHECK(got->listen == "localhost");
  CHECK(got->port == 4242);
  CHECK(got->tick_ms == 200);
  CHECK(got->lease_ttl_ms == 4500);
  CHECK(got->noise_w == 0);
  CHECK(got->output == "out/p");
  CHECK(got->follow == "demand.csv");
  CHECK(got->textfile == "row0.prom");
}

TEST_CASE("power tree: whether a child's steps may be shifted is said of each") {
  const auto got = power_tree_from(row_of_70 + power_child_text("a", "0, 1, 2") + "phase = true\n" +
                                   power_child_text("b", "0, 1, 2"));
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->child[0].phase);
  CHECK_FALSE(got->child[1].phase);
  check_refused({row_of_70 + power_child_text("a") + "phase = 1\n", "p.toml:8:9", "expected"});
}

TEST_CASE("power tree: whether others' work may run at a child is said of each") {
  const auto got = power_tree_from(row_of_70 + power_child_text("a", "0, 1, 2") +
                                   "others_work = true\n" + power_child_text("b", "0, 1, 2"));
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->child[0].others_work);
  CHECK_FALSE(got->child[1].others_work);
  check_refused(
      {row_of_70 + power_child_text("a") + "others_work = 1\n", "p.toml:8:15", "expected"});
}

TEST_CASE(
    "PTR-7: power tree: with certificates it listens beyond loopback, and knows children so") {
  const auto got =
      power_tree_from(row_of_70 + "listen = '10.0.0.1'\nport = 4242\nparent = '10.0.0.9:4242'\n" +
                      power_child_text("a", "0, 1, 2") + "certificate = 'a-coordinator'\n" +
                      power_child_text("b", "0, 1, 2") +
                      "[tls]\nca = 'ca.pem'\ncertificate = '{node}.pem'\nkey = '{node}.key'\n");
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->listen == "10.0.0.1");
  CHECK(got->tls == tls_section{"ca.pem", "{node}.pem", "{node}.key"});
  CHECK(got->child[0].certificate == "a-coordinator");
  CHECK(got->child[1].certificate == "b");
  CHECK(power_tree_from(row_of_70 + power_child_text("a"))->child[0].certificate.empty());
}

TEST_CASE("PTR-7: power tree: what no certificate proves is refused with its place") {
  const auto a = power_child_text("a", "0, 1, 2"), b = power_child_text("b", "0, 1, 2");
  for (const auto& w : {
           wrong{row_of_70 + "listen = '0.0.0.0'\n" + a, "p.toml:3:10",
                 "\"0.0.0.0\" is not loopback, and TLS is off"},
           wrong{row_of_70 + "tls = {ca = 'ca.pem'}\n" + a, "p.toml:3:", "all three"},
           wrong{row_of_70 + "tls = 3\n" + a, "p.toml:3:", "expected a [tls] table"},
           wrong{row_of_70 + "tls = {cert = 'c'}\n" + a, "p.toml:3:", "unknown key"},
           wrong{row_of_70 + a + "certificate = 'c'\n", "p.toml:8:15", "TLS is off"},
           wrong{row_of_70 + with_tls + a + "certificate = 'a b'\n", "p.toml:9:15", "\"a b\""},
           wrong{row_of_70 + with_tls + a + b + "certificate = 'a'\n", "p.toml:14:15",
                 "duplicate certificate \"a\""},
           wrong{row_of_70 + with_tls + a + "certificate = 'b'\n" + b, "p.toml:11:8",
                 "duplicate certificate \"b\""},
       })
    check_refused(w);
}

TEST_CASE("PTR-6: power tree: thresholds have a policy and its shares") {
  const auto got = power_tree_from(row_of_70 +
                                   "mode = 'thresholds'\npolicy = 'ladder'\nt1 = 0.7\nt2 = 0.8\n"
                                   "t3 = 0.9\n" +
                                   power_child_text("a"));
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->mode == power_mode::thresholds);
  CHECK(got->policy == power_rule::ladder);
  CHECK(got->t1 == 0.7);
  CHECK(got->t2 == 0.8);
  CHECK(got->t3 == 0.9);
  CHECK(power_tree_from(row_of_70 + "mode = 'thresholds'\n" + power_child_text("a"))->t1 < 0);
}

TEST_CASE("power tree: the budget above it is named, or found") {
  const auto parent_of = [](const std::string& text) {
    const auto got = power_tree_from(row_of_70 + text + power_child_text("a"));
    REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
    return got->parent + " " + got->parent_key;
  };
  CHECK(parent_of("") == " ");
  CHECK(parent_of("parent = 'auto'\n") == "auto ");
  CHECK(parent_of("parent = 'auto:feed0'\n") == "auto:feed0 ");
  CHECK(parent_of("parent = '127.0.0.1:4242'\nparent_key = 'k'\n") == "127.0.0.1:4242 k");
  CHECK(parent_of("port = 4243\nparent = '127.0.0.1:4242'\nparent_key = 'k'\n") ==
        "127.0.0.1:4242 k");
}

TEST_CASE("PTR-1: power tree: what is wrong is said with its place") {
  const auto a = power_child_text("a");
  std::string many;
  for (size_t i = 0; i <= most_power_children; ++i)
    many += power_child_text(fmt::format("c{}", i), "0, 0, 1");
  for (const auto& w : {
           wrong{row_of_70, "p.toml: ", "a budget needs a [[child]]"},
           wrong{row_of_70 + "child = []\n", "p.toml: ", "a budget needs a [[child]]"},
           wrong{row_of_70 + "child = 3\n", "p.toml:3:1", "expected [[child]] tables"},
           wrong{"budget_w = 70\n" + a, "p.toml: ", "name: a budget needs a name"},
           wrong{"name = 'row0'\n" + a, "p.toml: ", "budget_w: a budget needs a budget_w"},
           wrong{"name = '.row'\nbudget_w = 70\n" + a, "p.toml:1:8", "\".row\""},
           wrong{row_of_70 + power_child_text("a b"), "p.toml:4:8", "\"a b\""},
           wrong{row_of_70 + power_child_text(std::string(65, 'x')), "p.toml:4:8", "at most 64"},
           wrong{row_of_70 + power_child_text("a", "0, 1, 2") + power_child_text("a", "0, 1, 2"),
                 "p.toml:9:8", "duplicate name \"a\""},
           wrong{row_of_70 + a + power_child_text("b"), "p.toml:2:12",
                 "10 W more than the budget of 70 W"},
           wrong{row_of_70 + power_child_text("a", "50, 40, 60"), "p.toml:6:12",
                 "got 0, 50, 40 and 60"},
           wrong{row_of_70 + power_child_text("a", "20, 40, 30"), "p.toml:6:12",
                 "got 0, 20, 40 and 30"},
           wrong{row_of_70 + a + "paused_w = 21\n", "p.toml:6:12", "got 21, 20, 40 and 60"},
           wrong{row_of_70 + power_child_text("a", "-1, 40, 60"), "p.toml:5:11",
                 "expected a number from 0"},
           wrong{row_of_70 + power_child_text("a", "nan, 40, 60"), "p.toml:5:11",
                 "expected a number from 0"},
           wrong{row_of_70 + power_child_text("a", "20, 40, inf"), "p.toml:7:13",
                 "expected a number from 0.001"},
           wrong{row_of_70 + power_child_text("a", "20, '40 W', 60"), "p.toml:6:12",
                 "expected a number"},
           wrong{row_of_70 + "[[child]]\nname = 'a'\n", "p.toml:3:1",
                 "every [[child]] needs a static_w"},
           wrong{"name = 'row0'\nbudget_w = 0\n" + a, "p.toml:2:12", "expected a number"},
           wrong{row_of_70 + "t2 = 0.9\n" + a, "p.toml:3:6", "t2 is of thresholds"},
           wrong{row_of_70 + "policy = 'polca'\n" + a, "p.toml:3:10", "policy is of thresholds"},
           wrong{row_of_70 + "mode = 'thresholds'\nbrake = 'manual'\n" + a, "p.toml:4:9",
                 "need the brake"},
           wrong{row_of_70 + "mode = 'thresholds'\nt3 = 0.95\n" + a, "p.toml:4:6",
                 "polca has no third threshold"},
           wrong{row_of_70 + "mode = 'thresholds'\nt1 = 80\n" + a, "p.toml:4:6", "from 0.06 to 1"},
           wrong{row_of_70 + "brake = 'off'\n" + a, "p.toml:3:9", "one of \"auto\", \"manual\""},
           wrong{row_of_70 + "mode = 'share'\n" + a, "p.toml:3:8", "did you mean \"shares\"?"},
           wrong{row_of_70 + "listen = '10.0.0.1'\n" + a, "p.toml:3:10", "TLS is off"},
           wrong{row_of_70 + "listen = ''\n" + a, "p.toml:3:10", "expected an address"},
           wrong{row_of_70 + "port = 70000\n" + a, "p.toml:3:8", "from 0 to 65535"},
           wrong{row_of_70 + "tick_ms = 5000\n" + a, "p.toml:3:11", "from 100 to 2000"},
           wrong{row_of_70 + "tick_ms = 100\nlease_ttl_ms = 4499\n" + a, "p.toml:4:16",
                 "4499 is less than 4500"},
           wrong{row_of_70 + "tick_ms = 2000\nlease_ttl_ms = 7499\n" + a, "p.toml:4:16",
                 "7499 is less than 7500"},
           wrong{row_of_70 + "budget = 70\n" + a, "p.toml:3:1", "did you mean budget_w?"},
           wrong{row_of_70 + "[[childs]]\n", "p.toml:3:", "did you mean child?"},
           wrong{row_of_70 + a + "prority = 'low'\n", "p.toml:8:1", "did you mean child.priority?"},
           wrong{row_of_70 + a + "priority = 'mid'\n", "p.toml:8:12", "one of \"low\", \"high\""},
           wrong{row_of_70 + "include = 'base.toml'\n" + a, "p.toml:3:1", "unknown key"},
           wrong{row_of_70 + many, "p.toml:", "4097 children, at most 4096"},
           wrong{"name = \n", "p.toml:1:", ""},
           wrong{std::string((1 << 20) + 1, '#'), "p.toml: ", "larger than 1 MiB"},
       })
    check_refused(w);
}

TEST_CASE("PTR-6, PTR-8: power tree: how long commands settle, and who is unruly, has bounds") {
  const auto a = power_child_text("a");
  for (const auto& w : {
           wrong{row_of_70 + "hysteresis = 0.1\n" + a, "p.toml:3:14",
                 "hysteresis is of thresholds"},
           wrong{row_of_70 + "settle_ms = 9000\n" + a, "p.toml:3:13", "settle_ms is of thresholds"},
           wrong{row_of_70 + "undo_ms = 9000\n" + a, "p.toml:3:11", "undo_ms is of thresholds"},
           wrong{row_of_70 + "mode = 'thresholds'\nsettle_ms = 4499\n" + a, "p.toml:4:13",
                 "4499 is less than 4500"},
           wrong{row_of_70 + "brake_hold_ms = 999\n" + a, "p.toml:3:17", "from 1000 to"},
           wrong{row_of_70 + "unruly_ticks = 17\n" + a, "p.toml:3:16", "from 1 to 16"},
           wrong{row_of_70 + a + "idle_w = 61\n", "p.toml:3:1", "got 61 and 60"},
       })
    check_refused(w);
  const auto got = power_tree_from(row_of_70 + "mode = 'thresholds'\nsettle_ms = 4500\n" + a);
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->settle_ms == 4500);
  CHECK(got->undo_ms < 0);
  CHECK(got->brake_hold_ms == 30'000);
}

TEST_CASE("PTR-5: power tree: a budget above that cannot be one is refused with its place") {
  const auto a = power_child_text("a");
  for (const auto& w : {
           wrong{row_of_70 + "parent = 'feed0'\n" + a, "p.toml:3:10", "or HOST:PORT"},
           wrong{row_of_70 + "parent = '10.0.0.1:4242'\nparent_key = 'k'\n" + a, "p.toml:3:10",
                 "is not loopback, and TLS is off"},
           wrong{row_of_70 + "parent = '10.0.0.1:4242'\nparent_key = 'k'\n" + with_tls + a,
                 "p.toml:4:14", "a key is no proof"},
           wrong{row_of_70 + "listen = '10.0.0.1'\nport = 4242\nparent = '10.0.0.1:4242'\n" +
                     with_tls + a,
                 "p.toml:5:10", "row0 cannot be its own parent"},
           wrong{
               row_of_70 + "listen = '::'\nport = 4242\nparent = '127.0.0.1:4242'\n" + with_tls + a,
               "p.toml:5:10", "row0 cannot be its own parent"},
           wrong{row_of_70 + "parent = '127.0.0.1:4242'\n" + a, "p.toml:3:10", "needs parent_key"},
           wrong{row_of_70 + "parent_key = 'k'\n" + a, "p.toml:3:14", "none is named"},
           wrong{row_of_70 + "parent = 'auto'\nparent_key = 'k'\n" + a, "p.toml:4:14",
                 "is found with it"},
           wrong{row_of_70 + "parent = 'auto:row0'\n" + a, "p.toml:3:10",
                 "row0 cannot be its own parent"},
           wrong{row_of_70 + "port = 4242\nparent = 'localhost:4242'\nparent_key = 'k'\n" + a,
                 "p.toml:4:10", "row0 cannot be its own parent"},
       })
    check_refused(w);
}

TEST_CASE("PTR-5: power tree: another budget of the machine may have the same port on loopback") {
  const auto under = [](const std::string& listen) {
    return power_tree_from(row_of_70 + "listen = '" + listen +
                           "'\nport = 4242\nparent = '127.0.0.1:4242'\n" + with_tls +
                           power_child_text("a"));
  };
  CHECK(under("10.0.0.1"));
  for (const char* listen : {"127.0.0.1", "localhost", "0.0.0.0"}) CHECK_FALSE(under(listen));
}

TEST_CASE("PTR-1: power tree: static shares that are the budget to the milliwatt fit") {
  const std::string tenths = "name = 'r'\nbudget_w = 0.3\n";
  CHECK(power_tree_from(tenths + power_child_text("a", "0, 0.1, 1") +
                        power_child_text("b", "0, 0.2, 1")));
  CHECK_FALSE(power_tree_from(tenths + power_child_text("a", "0, 0.1, 1") +
                              power_child_text("b", "0, 0.201, 1")));
}

TEST_CASE("PTR-2: power tree: a key can be made for each name that is taken") {
  for (const auto& name : {std::string(64, 'x'), std::string(65, 'x'), std::string("a.b_c-9"),
                           std::string("-a"), std::string("a/b"), std::string("a:b")}) {
    CAPTURE(name);
    CHECK(bool(power_tree_from(row_of_70 + power_child_text(name))) == tls::is_name(name));
  }
}

TEST_CASE("PTR-3: power tree: all that is wrong is said in one go, in the order of the file") {
  const auto got =
      power_tree_from("nam = 'row0'\nbudget_w = -1\n" + power_child_text("a", "9, 8, 7"));
  REQUIRE_FALSE(got);
  const auto text = render(got.error());
  CAPTURE(text);
  const auto name = text.find("p.toml:1:1"), budget = text.find("p.toml:2:12"),
             order = text.find("p.toml:5:"), whole = text.find("a budget needs a name");
  CHECK(name < budget);
  CHECK(budget < text.find("p.toml:6:12"));
  CHECK(order == std::string::npos);
  CHECK(text.find("p.toml:6:12") < whole);
  CHECK(whole != std::string::npos);
}

TEST_CASE("power tree: a file that is not there, and one that is no file") {
  const scratch folder;
  CHECK(load_power_tree((folder / "p.toml").string()).error().code == errc::not_found);
  CHECK(load_power_tree(folder.path.string()).error().code == errc::not_found);
  std::ofstream(folder / "p.toml") << row_of_70 << power_child_text("a");
  CHECK(load_power_tree((folder / "p.toml").string()));
}

TEST_CASE("power tree: the example that is shipped is read") {
  const auto got = load_power_tree(TROUPE_SOURCE_DIR "/configs/power.toml");
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  CHECK(got->child.size() == 2);
}
