// Any bytes as a fault that a person names: refused with a sentence or read, never a crash; what
// was read is the same fault by its own word.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "actors/sim/named_faults.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

namespace {

/// A job that has what every kind needs, and somebody of every name.
config::job any_job() {
  config::job job;
  job.cluster.node.resize(2);
  job.cluster.node[0].name = "alpha";
  job.cluster.node[1].name = "beta";
  job.cluster.heads = {"127.0.0.1:1", "127.0.0.1:2"};
  job.parallel.data = job.parallel.pipeline = 2;
  job.swap.dir = {"swap"};
  job.power.budget_w = 1000;
  job.checkpoint.second.dir = "second";
  return job;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const config::job job = any_job();
  const std::string_view word(reinterpret_cast<const char*>(data), size);
  sim::rng chance(1), same(1);
  const auto fault = sim::parse_fault(word, chance);
  if (!fault) {
    must(fault.error().code == errc::usage, "a word that is none is a usage error");
    return 0;
  }
  must(fault->at_ns >= 0 && fault->lasts_ns >= 0, "times are from 0");
  const auto again = sim::parse_fault(sim::spelled(*fault), same);
  must(again.has_value(), "a fault's own word is one");
  must(again->kind == fault->kind && again->whom == fault->whom, "it is the same fault");
  must(again->at_ns == fault->at_ns && again->lasts_ns == fault->lasts_ns, "at the same time");
  must(again->random == fault->random, "by the same chance");
  must(sim::spelled(*again) == sim::spelled(*fault), "and has the same word");
  if (const auto fits = sim::check_fault(*fault, job); !fits)
    must(fits.error().code == errc::usage, "what the job does not have is a usage error");
  return 0;
}
