// Verified, then looked at; see agent_message.hpp.
#include "gpu/controls/agent_message.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <flatbuffers/flatbuffers.h>

#include "gpu/controls/agent_generated.h"
#include "gpu/controls/setting_policy.hpp"
#include "io/base/printable.hpp"

namespace troupe::gpu::controls {

namespace {

constexpr const char *request_mark = "TAQ1", *answer_mark = "TAA1";
constexpr size_t prefix_bytes = sizeof(flatbuffers::uoffset_t);
/// The prefix, where the root is, and its mark.
constexpr size_t least_message_bytes = prefix_bytes + 8;

/// One name for each, on the wire and here.
static_assert(static_cast<int>(agent_verb::check_clock) ==
              static_cast<int>(wire::AgentVerb::check_clock));
static_assert(static_cast<int>(agent_outcome::failed) ==
              static_cast<int>(wire::AgentOutcome::failed));

/// A root in bytes that are copied to where they are aligned. AGM-1
template <class Root>
class verified_message {
 public:
  static result<verified_message> of(std::span<const std::byte> whole, const char* mark) {
    TROUPE_TRY(bytes, agent_message_bytes(whole));
    if (!bytes || *bytes != whole.size()) return bad_agent_message("it is not whole");
    verified_message out;
    out.words_.resize((whole.size() + 7) / 8);
    std::memcpy(out.words_.data(), whole.data(), whole.size());
    constexpr flatbuffers::uoffset_t deepest = 4, most_tables = 4;
    flatbuffers::Verifier verifier(out.begin(), whole.size(), deepest, most_tables);
    if (!verifier.VerifySizePrefixedBuffer<Root>(mark))
      return bad_agent_message("its bytes do not verify");
    return out;
  }
  const Root* operator->() const { return flatbuffers::GetSizePrefixedRoot<Root>(begin()); }

 private:
  const uint8_t* begin() const { return reinterpret_cast<const uint8_t*>(words_.data()); }
  std::vector<uint64_t> words_;
};

std::string_view text_in(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

bool is_shown_name(std::string_view name) {
  return !name.empty() && name.size() <= agent_name_bytes && printable(name) == name;
}

std::string cut_to(std::string_view text, size_t bytes) {
  return std::string(text.substr(0, bytes));
}

std::vector<std::byte> bytes_in(const flatbuffers::FlatBufferBuilder& b) {
  const auto* begin = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {begin, begin + b.GetSize()};
}

/// Of take: the device, and for whom.
status read_take(const wire::AgentRequest& r, agent_request& into) {
  const auto kind = setting_kind_named(text_in(r.word()));
  if (!kind) return bad_agent_message("its word sets nothing");
  const auto gpu = text_in(r.gpu());
  if (is_of_gpu(*kind) ? !names_setting(*kind, gpu) : !gpu.empty())
    return bad_agent_message("its device is none of its word");
  const auto job = text_in(r.job());
  if (!is_shown_name(job)) return bad_agent_message("its job has no name that a line can show");
  if (r.rank() < 0) return bad_agent_message("its rank is below 0");
  into.target = {*kind, std::string(gpu)};
  into.owner = {std::string(job), r.rank(), r.launch()};
  return {};
}

bool is_share(double x) {
  return std::isfinite(x) && x >= 0 && x <= 1;
}

/// None is lost of a device that has as many as are told.
std::vector<uint16_t> told_clocks(std::span<const int> all) {
  std::vector<uint16_t> out;
  const size_t count = std::min(all.size(), agent_clocks_told);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = count > 1 ? i * (all.size() - 1) / (count - 1) : 0;
    out.push_back(
        static_cast<uint16_t>(std::clamp<int>(all[at], 0, std::numeric_limits<uint16_t>::max())));
  }
  return out;
}

/// Highest first, and each one a clock.
status read_clocks(const flatbuffers::Vector<uint16_t>* told, std::vector<int>& into) {
  if (told == nullptr) return {};
  if (told->size() > agent_clocks_told) return bad_agent_message("it has too many clocks");
  for (const int mhz : *told) {
    if (mhz == 0 || (!into.empty() && mhz >= into.back()))
      return bad_agent_message("its clocks are none");
    into.push_back(mhz);
  }
  return {};
}

std::optional<int64_t> delay_in(int64_t ns) {
  return ns < 0 ? std::nullopt : std::optional(ns);
}

}  // namespace

result<std::optional<size_t>> agent_message_bytes(std::span<const std::byte> begun) {
  if (begun.size() < prefix_bytes) return std::optional<size_t>();
  const size_t said = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(begun.data());
  if (said > most_agent_message_bytes - prefix_bytes) return bad_agent_message("it is too long");
  if (said + prefix_bytes < least_message_bytes) return bad_agent_message("it is too short");
  return std::optional(said + prefix_bytes);
}

std::vector<std::byte> to_bytes(const agent_request& r) {
  flatbuffers::FlatBufferBuilder b(512);
  const auto word = b.CreateString(std::string(to_string(r.target.kind)));
  const auto gpu = b.CreateString(r.target.gpu);
  const auto job = b.CreateString(cut_to(r.owner.job, agent_name_bytes));
  const auto root =
      wire::CreateAgentRequest(b, r.sequence, static_cast<wire::AgentVerb>(r.verb), word, gpu, job,
                               r.owner.rank, r.owner.launch, r.pace_of_1024, r.clock_mhz);
  b.FinishSizePrefixed(root, request_mark);
  return bytes_in(b);
}

std::vector<std::byte> to_bytes(const agent_answer& a) {
  flatbuffers::FlatBufferBuilder b(512);
  const auto why = b.CreateString(printable(a.why, agent_reason_length));
  const auto agent = b.CreateString(cut_to(a.agent, agent_name_bytes));
  const auto clocks = b.CreateVector(told_clocks(a.clocks_mhz));
  const auto root = wire::CreateAgentAnswer(
      b, a.sequence, static_cast<wire::AgentOutcome>(a.outcome), why, agent, a.facts.least,
      a.facts.most, a.facts.resolution, a.facts.saves_energy, a.facts.p50_ns.value_or(-1),
      a.facts.p99_ns.value_or(-1), clocks, a.given_back_to);
  b.FinishSizePrefixed(root, answer_mark);
  return bytes_in(b);
}

result<agent_request> parse_agent_request(std::span<const std::byte> whole) {
  TROUPE_TRY(r, verified_message<wire::AgentRequest>::of(whole, request_mark));
  agent_request out;
  out.sequence = r->sequence();
  if (r->verb() > wire::AgentVerb::MAX) return bad_agent_message("it asks for nothing known");
  out.verb = static_cast<agent_verb>(r->verb());
  if (out.verb == agent_verb::take) TROUPE_CHECK(read_take(*r.operator->(), out));
  if (out.verb == agent_verb::set) {
    if (r->pace_of_1024() < 0 || r->pace_of_1024() > whole_pace)
      return bad_agent_message("its pace is none");
    out.pace_of_1024 = r->pace_of_1024();
  }
  if (out.verb == agent_verb::clock) {
    if (r->clock_mhz() < 1 || r->clock_mhz() > highest_clock_mhz)
      return bad_agent_message("its clock is none");
    out.clock_mhz = r->clock_mhz();
  }
  return out;
}

result<agent_answer> parse_agent_answer(std::span<const std::byte> whole) {
  TROUPE_TRY(a, verified_message<wire::AgentAnswer>::of(whole, answer_mark));
  if (a->outcome() > wire::AgentOutcome::MAX) return bad_agent_message("its outcome is not known");
  if (!is_share(a->least()) || !is_share(a->most()) || !is_share(a->resolution()))
    return bad_agent_message("what the device can do is no share");
  agent_answer out;
  out.sequence = a->sequence();
  out.outcome = static_cast<agent_outcome>(a->outcome());
  out.why = printable(text_in(a->why()), agent_reason_length);
  out.agent = printable(text_in(a->agent()), agent_name_bytes);
  out.facts.least = a->least();
  out.facts.most = a->most();
  out.facts.resolution = a->resolution();
  out.facts.saves_energy = a->saves_energy();
  out.facts.p50_ns = delay_in(a->p50_ns());
  out.facts.p99_ns = delay_in(a->p99_ns());
  TROUPE_CHECK(read_clocks(a->clocks_mhz(), out.clocks_mhz));
  out.given_back_to = a->given_back_to();
  return out;
}

}  // namespace troupe::gpu::controls
