// Listening, meeting, summing, gathering, leaving.
#include "actors/health/test_group.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"

namespace troupe::health {

namespace {

double now_s() {
  return gpu::seconds_now(gpu::time_kind::wall);
}

/// From joining on; then no further sum begins, so that whoever asked is still there (TGR-2).
constexpr double budget_s() {
  return 1e-3 * static_cast<double>((2 * defaults::group_operation).count());
}

void note(fbs::TestGroupSeenT& seen, const known_sum::sum_errors& found) {
  if (seen.wrong_sums == 0 && found.first) {
    seen.first_place = found.first->place;
    seen.first_seen = found.first->seen;
    seen.first_wanted = found.first->wanted;
  }
  seen.wrong_sums += found.wrong;
}

/// Known sums, the first of which ends the start.
status sum_known(gpu::communicator& group, gpu::stream& stream, uint32_t rounds,
                 const known_sum& numbers, double opened, double joined,
                 fbs::TestGroupSeenT& seen) {
  std::vector<float> sum(known_sum::elements);
  double summing = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    if (now_s() - joined > budget_s())
      return error{errc::timeout, fmt::format("{} of {} sums took {:.1f} s", round, rounds,
                                              now_s() - joined)};
    numbers.part_of(static_cast<size_t>(group.rank()), sum);
    const double from = now_s();
    group.all_reduce_sum(stream, sum.data(), static_cast<int64_t>(sum.size()));
    TROUPE_CHECK(stream.synchronize());
    summing += now_s() - from;
    if (round == 0) seen.start_ms = (now_s() - opened) * 1e3;
    note(seen, known_sum::errors_of_sum(sum, static_cast<size_t>(group.size())));
  }
  seen.bytes_per_s = rounds * static_cast<double>(sum.size() * sizeof(float)) /
                     std::max(summing, 1e-9);
  return {};
}

/// Waits until each member has all that it needs: one that leaves first closes connections that
/// others still read from. Whether this comes through is of no matter any more.
void meet_last(gpu::communicator& group, gpu::stream& stream, double joined) {
  if (now_s() - joined > budget_s()) return;
  float one = 1;
  group.all_reduce_sum(stream, &one, 1);
  static_cast<void>(stream.synchronize());
}

}  // namespace

test_group::test_group(gpu::group_options options, std::unique_ptr<gpu::pending_group> pending)
    : options_(std::move(options)), pending_(std::move(pending)), opened_(now_s()) {}

result<std::unique_ptr<test_group>> test_group::open(const gpu::group_options& options,
                                                     const group_opener& opener) {
  auto own = options;
  own.connect_timeout = defaults::group_meeting;  // TGR-2
  own.timeout = defaults::group_operation;
  TROUPE_TRY(pending, opener ? opener(own) : gpu::open_gloo_group(own));  // TGR-1
  return std::unique_ptr<test_group>(new test_group(std::move(own), std::move(pending)));
}

std::string test_group::address() const {
  for (const auto& a : pending_->addresses())
    if (!a.empty()) return a;
  return {};
}

result<fbs::TestGroupSeenT> test_group::join(std::vector<std::string> ends, uint32_t rounds,
                                             const known_sum& numbers) {
  const auto own = static_cast<size_t>(options_.rank);
  if (own < ends.size()) ends[own].clear();
  const double joined = now_s();
  TROUPE_TRY(group, pending_->connect(ends));
  const auto device = gpu::make_host_device(1);  // TGR-1
  TROUPE_TRY(stream, device->make_stream({"doctor", 1}));
  fbs::TestGroupSeenT seen;
  TROUPE_CHECK(sum_known(*group, *stream, std::clamp(rounds, uint32_t{1}, most_rounds), numbers,
                         opened_, joined, seen));
  TROUPE_TRY(parts, gather_known(*group, *device, *stream, numbers));
  seen.wrong_gathered = parts.wrong;
  seen.gathered_from = parts.from;
  meet_last(*group, *stream, joined);
  const double leaving = now_s();
  stream.reset();
  group.reset();
  pending_.reset();
  seen.stop_ms = (now_s() - leaving) * 1e3;
  return seen;
}

result<known_sum::part_errors> gather_known(gpu::communicator& group, gpu::device& owner,
                                            gpu::stream& stream, const known_sum& numbers) {
  constexpr size_t bytes = known_sum::gathered * sizeof(float);
  const auto members = static_cast<size_t>(group.size());
  std::vector<float> own(known_sum::gathered), all(known_sum::gathered * members);
  TROUPE_TRY(memory, owner.allocate(members * bytes));
  numbers.part_of(static_cast<size_t>(group.rank()), own);
  stream.copy(memory.as<float>() + static_cast<size_t>(group.rank()) * known_sum::gathered,
              own.data(), bytes);
  group.all_gather(stream, memory.data(), bytes);
  stream.copy(all.data(), memory.data(), members * bytes);
  TROUPE_CHECK(stream.synchronize());
  return known_sum::errors_of_parts(all);
}

}  // namespace troupe::health
