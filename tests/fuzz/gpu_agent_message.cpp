// Any bytes as what a rank asks the agent of its machine, and as what that answers: refused, or of
// what is then set every part means something, and is written as it was read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/controls/agent_message.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "io/base/printable.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;

namespace {

void look_at(const agent_request& r) {
  must(r.pace_of_1024 >= 0 && r.pace_of_1024 <= whole_pace, "AGM-1: a pace");
  must(r.clock_mhz >= 1 && r.clock_mhz <= highest_clock_mhz, "AGM-1: a clock");
  if (r.verb == agent_verb::take) {
    must(is_of_gpu(r.target.kind) ? names_setting(r.target.kind, r.target.gpu)
                                  : r.target.gpu.empty(),
         "AGM-1: a device of its word");
    must(!r.owner.job.empty() && printable(r.owner.job) == r.owner.job, "AGM-1: a name");
    must(r.owner.rank >= 0 && !r.owner.is_adopted, "AGM-1: a rank of a job");
  }
  const auto again = parse_agent_request(to_bytes(r));
  must(r.verb != agent_verb::take || again, "AGM-2: what is written is read");
  if (again) must(again->sequence == r.sequence && again->verb == r.verb, "AGM-2: the same");
  if (again) must(again->clock_mhz == r.clock_mhz, "AGM-2: the same clock");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto length = agent_message_bytes(bytes); length && *length)
    must(**length > 4 && **length <= most_agent_message_bytes, "AGM-1: a bounded length");
  if (const auto request = parse_agent_request(bytes)) look_at(*request);
  const auto answer = parse_agent_answer(bytes);
  if (!answer) {
    must(answer.error().is(bad_agent_message), "AGM-1: refused as what it is");
    return 0;
  }
  must(answer->facts.least >= 0 && answer->facts.most <= 1, "AGM-1: shares");
  must(answer->clocks_mhz.size() <= agent_clocks_told, "AGM-1: bounded clocks");
  must(std::is_sorted(answer->clocks_mhz.rbegin(), answer->clocks_mhz.rend()),
       "AGM-1: the highest clock first");
  const auto again = parse_agent_answer(to_bytes(*answer));
  must(again && again->outcome == answer->outcome && again->why == answer->why &&
           again->clocks_mhz == answer->clocks_mhz,
       "AGM-2: what is written is read");
  return 0;
}
