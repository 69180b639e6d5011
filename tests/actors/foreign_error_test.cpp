// Errors as CAF writes them, and as nobody of ours does.
#include "actors/cluster/foreign_error.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <caf/all.hpp>

#include "messages/errors.hpp"

using namespace troupe;

namespace {

struct quiet_system {
  caf::actor_system_config config;
  caf::actor_system system{config.set("scheduler.max-threads", 1)};

  std::vector<char> bytes_of(caf::error e) {
    std::vector<char> out;
    caf::binary_serializer sink(system, out);
    REQUIRE_FALSE(sink(e));
    return out;
  }
  bool is_of_words(const std::vector<char>& bytes) {
    caf::binary_deserializer source(system, bytes.data(), bytes.size());
    return cluster::is_error_of_words(source);
  }
  bool is_of_words(const caf::error& e) { return is_of_words(bytes_of(e)); }
};

}  // namespace

TEST_CASE("FRM-2: foreign error: what ends our actors is of words alone") {
  quiet_system s;
  CHECK(s.is_of_words(caf::error()));
  CHECK(s.is_of_words(caf::make_error(caf::exit_reason::user_shutdown)));
  CHECK(s.is_of_words(caf::make_error(caf::sec::runtime_error, std::string("why"))));
  CHECK(s.is_of_words(to_caf({errc::io, "no such disk", "look for it"})));
}

TEST_CASE("FRM-2: foreign error: errors within errors, handles and what is cut short are not") {
  quiet_system s;
  const auto plain = caf::make_error(caf::exit_reason::kill);
  auto nested = plain;
  for (int depth = 0; depth < 3; ++depth) {
    nested = caf::error(1, caf::atom("exit"), caf::make_message(nested));
    CHECK_FALSE(s.is_of_words(nested));
  }
  const auto with = [](auto... beside) {
    return caf::error(1, caf::atom("exit"), caf::make_message(std::move(beside)...));
  };
  CHECK_FALSE(s.is_of_words(with(caf::strong_actor_ptr())));
  CHECK_FALSE(s.is_of_words(with(std::string("why"), caf::strong_actor_ptr())));
  CHECK_FALSE(s.is_of_words(with(caf::strong_actor_ptr(), std::string("why"))));
  CHECK_FALSE(s.is_of_words(with(int32_t{7})));
  auto bytes = s.bytes_of(plain);
  while (!bytes.empty()) {
    bytes.pop_back();
    CHECK_FALSE(s.is_of_words(bytes));
  }
}
