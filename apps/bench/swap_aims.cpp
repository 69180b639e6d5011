// The worst row of each aim.
#include "apps/bench/swap_aims.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::apps::swap_bench {

namespace {

/// Where products take so many times as long as the drive, swapping is to cost next to nothing.
constexpr double mostly_products = 1.3;
/// Where neither takes more than so many times the other, they are about equal.
constexpr double about_equal = 1.3;

class judge {
 public:
  judge(std::string name, double bound, bool at_least, std::string unit) {
    aim_.name = std::move(name);
    aim_.bound = bound;
    aim_.at_least = at_least;
    aim_.unit = std::move(unit);
  }
  void see(const swap_measurement& m, double value) {
    const bool worse =
        !aim_.measured || (aim_.at_least ? value < *aim_.measured : value > *aim_.measured);
    if (!worse) return;
    aim_.measured = value;
    aim_.row = fmt::format("{}, {} tokens", m.plan.model, m.plan.tokens);
  }
  aim take() { return std::move(aim_); }

 private:
  aim aim_;
};

double median_of(const way_result& r) {
  return r.took().median;
}

/// Both ways' medians of a row, where it has both.
std::optional<double> ratio(const swap_measurement& m, way of, way to) {
  const auto *a = find(m, of), *b = find(m, to);
  if (a == nullptr || b == nullptr || median_of(*b) <= 0) return {};
  return median_of(*a) / median_of(*b);
}

/// The planner's choice of what layers keep over the best of the others, where a row has them.
std::optional<double> against_forced(const swap_measurement& m) {
  std::optional<double> out;
  for (const auto w : {way::recompute, way::half, way::keep, way::spill})
    if (const auto r = ratio(m, way::planned, w)) out = std::max(out.value_or(0), *r);
  return out;
}

}  // namespace

std::vector<aim> aims_of(const std::vector<swap_measurement>& rows) {
  judge limit("ours, of the limit", 0.85, true, "of the limit"),
      io("ours, of the limit where the drive bounds it", 0.90, true, "of the limit"),
      least("ours, of the least that any plan could move", 0.80, true, "of the least-bytes limit"),
      inmem("ours, where products take 1.3 times the drive's time", 1.05, false, "times inmem"),
      phased("ours, where both are about equal", 1.6, true, "times the speed of phased"),
      sync("ours, where both are about equal", 1.8, true, "times the speed of sync"),
      expected("what was expected of a step", 0.15, false, "off what was measured"),
      saving("a checkpoint each step", 0.02, false, "of a step"),
      saved("a checkpoint each step", 1, false, "MiB written for each"),
      verify("sums of what is read", 0.03, false, "of a step"),
      planner("what the planner lets layers keep", 1.05, false, "times the best forced choice");
  for (const auto& m : rows) {
    if (const auto r = against_forced(m)) planner.see(m, *r);
    const auto* ours = find(m, way::ours);
    if (ours == nullptr || median_of(*ours) <= 0) continue;
    const double took = median_of(*ours);
    if (ours->limit_s > 0) limit.see(m, ours->limit_s / took);
    if (ours->limit_s > 0 && ours->part == gpu::bound_by::disk) io.see(m, ours->limit_s / took);
    if (ours->limit_s > 0 && ours->least_s > 0) least.see(m, ours->least_s / took);
    if (ours->expected_s > 0) expected.see(m, std::abs(ours->expected_s / took - 1));
    const double share = ours->disk_s > 0 ? ours->compute_s / ours->disk_s : 0;
    const bool equal = share >= 1 / about_equal && share <= about_equal;
    if (const auto r = ratio(m, way::ours, way::inmem); r && share >= mostly_products)
      inmem.see(m, *r);
    if (const auto r = ratio(m, way::phased, way::ours); r && equal) phased.see(m, *r);
    if (const auto r = ratio(m, way::sync, way::ours); r && equal) sync.see(m, *r);
    if (const auto r = ratio(m, way::ours, way::noverify)) verify.see(m, *r - 1);
    if (const auto r = ratio(m, way::saving, way::ours)) {
      saving.see(m, *r - 1);
      const auto with = find(m, way::saving)->written_bytes;
      const auto more = with - std::min(with, ours->written_bytes);
      saved.see(m, static_cast<double>(more) / (1 << 20));
    }
  }
  return {limit.take(),    io.take(),     least.take(), inmem.take(),  phased.take(), sync.take(),
          expected.take(), saving.take(), saved.take(), verify.take(), planner.take()};
}

std::string text(const std::vector<aim>& aims) {
  std::string out = "aims, each with the row that is farthest from it:\n";
  for (const auto& a : aims) {
    out += fmt::format("  {:<6} {}: {} {:.2f} {}",
                       !a.measured ? "-"
                       : a.met()   ? "met"
                                   : "missed",
                       a.name, a.at_least ? "at least" : "at most", a.bound, a.unit);
    out += a.measured ? fmt::format("; {:.3f} ({})\n", *a.measured, a.row)
                      : std::string("; no row is about it\n");
  }
  return out;
}

nlohmann::ordered_json json(const std::vector<aim>& aims) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& a : aims) {
    nlohmann::ordered_json one{
        {"aim", a.name}, {a.at_least ? "at_least" : "at_most", a.bound}, {"unit", a.unit}};
    one["measured"] = a.measured ? nlohmann::ordered_json(*a.measured) : nlohmann::ordered_json();
    one["met"] = a.measured ? nlohmann::ordered_json(a.met()) : nlohmann::ordered_json();
    one["row"] = a.row;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace troupe::apps::swap_bench
