// By what machines are told apart: hardware, and nothing that changes without it.
#include "io/perf/machine_print.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe::io::perf;

namespace {

constexpr uint64_t one_gib = uint64_t{1} << 30;

using print_words = std::vector<std::string>;

machine_print machine_with(std::string_view cpu, uint32_t cores, uint64_t memory,
                           const print_words& gpus = {}, const print_words& uuids = {}) {
  return print_of({cpu, cores, memory, gpus, uuids});
}

}  // namespace

TEST_CASE("machine print: processor, cores, memory and GPUs, in words") {
  const auto plain = machine_with("Xeon 8481C", 8, 32 * one_gib);
  CHECK(plain.kind == "Xeon 8481C, 8 cores, 32 GiB");
  CHECK(plain.gpu_ids.empty());
  CHECK(plain.is_known());
  const auto gpus = machine_with("Xeon", 8, 32 * one_gib, {"H200", "L4", "H200"}, {"GPU-1"});
  CHECK(gpus.kind == "Xeon, 8 cores, 32 GiB, 2 x H200, 1 x L4");
  CHECK(gpus.gpu_ids.size() == 8);
  CHECK_FALSE(machine_with("", 8, 32 * one_gib).is_known());
}

TEST_CASE("machine print: other hardware has another, whichever part of it is another one") {
  const print_words gpus{"H200", "H200"}, ids{"GPU-1", "GPU-2"};
  const auto is = machine_with("Xeon", 8, 32 * one_gib, gpus, ids);
  CHECK(is == machine_with("Xeon", 8, 32 * one_gib, gpus, {"GPU-2", "GPU-1"}));
  CHECK(is != machine_with("EPYC", 8, 32 * one_gib, gpus, ids));
  CHECK(is != machine_with("Xeon", 9, 32 * one_gib, gpus, ids));
  CHECK(is != machine_with("Xeon", 8, 48 * one_gib, gpus, ids));
  CHECK(is != machine_with("Xeon", 8, 32 * one_gib, {"H200"}, ids));
  const auto replaced = machine_with("Xeon", 8, 32 * one_gib, gpus, {"GPU-1", "GPU-3"});
  CHECK(is != replaced);
  CHECK(is.kind == replaced.kind);  // equal machines, and not the same
}

TEST_CASE("machine print: what a kernel keeps of the memory tells no machines apart") {
  for (const auto built_in :
       {1 * one_gib, 6 * one_gib, 16 * one_gib, 48 * one_gib, 96 * one_gib, 512 * one_gib}) {
    CAPTURE(built_in);
    const auto is = machine_with("Xeon", 8, built_in);
    CHECK(is == machine_with("Xeon", 8, built_in - built_in / 50));
    CHECK(is == machine_with("Xeon", 8, built_in - built_in / 20));
    CHECK(is != machine_with("Xeon", 8, built_in / 2));
    CHECK(is != machine_with("Xeon", 8, built_in + built_in / 4));
  }
  CHECK(machine_with("Xeon", 8, 0).is_known());
  CHECK(machine_with("Xeon", 8, ~uint64_t{0}).is_known());
}

TEST_CASE("MCP-3: a machine that says a little less of itself now may be the same") {
  const print_words gpus{"H200", "H200"}, ids{"GPU-1", "GPU-2"};
  const auto is = machine_with("Xeon", 8, 64 * one_gib, gpus, ids);
  const auto asleep = machine_with("Xeon", 8, 64 * one_gib, gpus);
  CHECK(is != asleep);
  CHECK(may_be_same(is, asleep));
  CHECK(may_be_same(asleep, is));
  CHECK(may_be_same(is, is));
  CHECK_FALSE(may_be_same(is, machine_with("Xeon", 8, 64 * one_gib, gpus, {"GPU-3"})));
  CHECK_FALSE(may_be_same(is, machine_with("Xeon", 9, 64 * one_gib, gpus, ids)));
  CHECK_FALSE(may_be_same(is, machine_with("EPYC", 8, 64 * one_gib, gpus, ids)));
  CHECK_FALSE(may_be_same(is, machine_with("Xeon", 8, 64 * one_gib, {"H200"}, ids)));
  CHECK_FALSE(may_be_same(is, machine_with("Xeon", 8, 0, gpus, ids)));
  CHECK_FALSE(may_be_same(is, {}));
  CHECK_FALSE(may_be_same({}, {}));
}

TEST_CASE("MCP-3: memory about a step of its rounding tells no machines apart") {
  for (const auto memory : {3 * one_gib, 15 * one_gib, 60 * one_gib, 64 * one_gib}) {
    CAPTURE(memory);  // a kernel's next release keeps a little more, and falls on the other side
    const auto most = machine_with("Xeon", 8, memory + one_gib / 64),
               least = machine_with("Xeon", 8, memory - one_gib / 64);
    CHECK(most != least);
    CHECK(may_be_same(most, least));
    CHECK_FALSE(may_be_same(most, machine_with("Xeon", 8, memory / 2)));
    CHECK_FALSE(may_be_same(least, machine_with("Xeon", 8, memory + memory / 2)));
  }
  CHECK_FALSE(may_be_same({"a, x GiB", {}}, {"a, y GiB", {}}));  // of a file: no numbers
  CHECK_FALSE(may_be_same({"a, nan GiB", {}}, {"a, 1 GiB", {}}));
}

TEST_CASE("MCP-2: GPUs that a node does not compute on tell no machines apart") {
  CHECK(machine_with("Xeon", 8, one_gib, {}, {"GPU-1"}) == machine_with("Xeon", 8, one_gib));
}

TEST_CASE("MCP-1: whatever a machine says of itself, its print is short and plain") {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  for (const auto& cpu : {all, std::string(10'000, 'x'), std::string("a\"b\\c\nd")}) {
    const auto is = machine_with(cpu, 8, one_gib, {cpu, cpu}, {cpu});
    CHECK(is.is_known());
    CHECK(is_print_text(is.kind));
    CHECK(is_print_text(is.gpu_ids));
  }
  CHECK(machine_with("a\"b", 1, one_gib).kind == "a?b, 1 cores, 1 GiB");
  CHECK_FALSE(is_print_text(std::string(print_bytes + 1, 'x')));
  CHECK_FALSE(is_print_text("a\n"));
  CHECK_FALSE(is_print_text("\xc3\xa4"));
}

TEST_CASE("machine print: of several, the kind that all share, or that there are several") {
  const auto a = machine_with("Xeon", 8, one_gib, {"L4"}, {"GPU-1"}),
             b = machine_with("Xeon", 8, one_gib, {"L4"}, {"GPU-2"}),
             c = machine_with("EPYC", 8, one_gib);
  const auto of = [](std::vector<machine_print> all) { return print_of_all(all); };
  CHECK(of({a, b}) == machine_print{a.kind, {}});
  CHECK(of({a, c}) == of({c, b, a}));
  CHECK(of({a, c}) != of({a}));
  CHECK(of({a, c}) != of({c}));
  CHECK(is_print_text(of({a, c}).kind));
  CHECK_FALSE(of({}).is_known());
  CHECK_FALSE(of({a, {}}).is_known());
}
