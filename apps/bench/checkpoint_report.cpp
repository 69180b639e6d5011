// Medians, a table, the aims.
#include "apps/bench/checkpoint_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/counted.hpp"

namespace troupe::apps::ckpt_bench {

namespace {

nlohmann::ordered_json json_of(const sample& s) {
  return s.empty() ? nullptr : apps::json_of(s.all());
}

/// "12.3 (11.8-14.0)", or a dash.
std::string shown(const sample& s, double unit, int digits) {
  if (s.empty()) return "-";
  const auto all = s.all();
  return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", all.median / unit, digits, all.least / unit,
                     digits, all.most / unit, digits);
}

std::string shown_ratio(const sample& s) {
  return s.empty() ? "-" : fmt::format("{:.2f}", s.median());
}

const way_row* find(const size_report& r, std::string_view id) {
  for (const auto& row : r.rows)
    if (row.way.id == id) return &row;
  return nullptr;
}

aim judged(std::string what, double limit, const sample* s, double unit, std::string why_not) {
  aim a{std::move(what), {}, limit, std::move(why_not)};
  if (a.why_not.empty() && (s == nullptr || s->empty())) a.why_not = "it was not measured";
  if (a.why_not.empty()) a.value = s->median() / unit;
  return a;
}

}  // namespace

double size_report::pressure() const {
  return iteration_s > 0 ? ceiling_s.median() / iteration_s : 0;
}

std::vector<aim> judge(const size_report& r) {
  const auto* ours = find(r, "ours");
  const auto of = [&](sample way_row::*which) { return ours ? &(ours->*which) : nullptr; };
  const double load = r.pressure();
  const bool light = load <= 0.5;
  const auto* durable = of(&way_row::over_ceiling);
  // Against whichever of the two writes was quicker.
  const bool fio = ours && ours->over_fio.median() > ours->over_ceiling.median();
  if (fio) durable = of(&way_row::over_fio);
  return {
      judged("blocked, of an iteration, while bytes/bandwidth <= half an iteration", 0.01,
             of(&way_row::blocked_s), r.iteration_s,
             light ? "" : fmt::format("bytes/bandwidth is {:.2f} iterations here", load)),
      judged("slowdown beyond that, over max(1, flush/iteration)", 1.05, of(&way_row::slowdown),
             std::max(1.0, load),
             light ? fmt::format("bytes/bandwidth is {:.2f} iterations here", load) : ""),
      judged(fmt::format("time to durable, over the {} of the same minute",
                         fio ? "write by fio" : "raw write"),
             1.10, durable, 1,
             light ? "" : "checkpoints queue behind each other at this iteration time"),
      judged("restore, over the raw read", 1.15, of(&way_row::over_raw_read), 1, ""),
  };
}

std::string text(const size_report& r) {
  const double bytes = static_cast<double>(r.bytes);
  std::string out = fmt::format(
      "{:.3g} GiB of state ({:.1f} M parameters in {}), iteration {:.0f} ms (update "
      "{:.0f}), "
      "{} of {}, ring {} MiB\n"
      "raw write {} s ({:.2f} GB/s; {} KiB x {}, {}), fio {} s, raw read {} s; bytes/bandwidth is "
      "{:.2f} iterations\n",
      bytes / gib, static_cast<double>(r.parameters) / 1e6, counted(r.chunks, "chunk"),
      r.iteration_s * 1e3, r.update_s * 1e3, counted(r.rounds, "round"),
      counted(r.iterations, "iteration"), r.ring_bytes >> 20, shown(r.ceiling_s, 1, 2),
      bytes / r.ceiling_s.median() / 1e9, r.disk.best.chunk_bytes >> 10, r.disk.best.depth,
      r.disk.backend, shown(r.fio_s, 1, 2), shown(r.raw_read_s, 1, 2), r.pressure());
  if (r.unsteady_rounds > 0)
    out += fmt::format("the disk was unsteady in {} of {} rounds (over 15 % within one)\n",
                       r.unsteady_rounds, r.rounds);
  out += fmt::format("{:<36} {:>23} {:>8} {:>16} {:>22} {:>6} {:>6} {:>8} {:>9}\n", "way",
                     "blocked ms", "of iter.", "slowdown", "finished s", "x raw", "x fio",
                     "CPU s/GB", "peak MiB");
  const auto cached = [](const auto& row) { return !row.way.durable && !row.finished_s.empty(); };
  for (const auto& row : r.rows)
    out += fmt::format(
        "{:<36} {:>23} {:>6.1f} % {:>16} {:>22} {:>6} {:>6} {:>8} {:>9}\n", row.way.text,
        shown(row.blocked_s, 1e-3, 1), 100 * row.blocked_s.median() / r.iteration_s,
        shown(row.slowdown, 1, 2), shown(row.finished_s, 1, 2) + (cached(row) ? " *" : ""),
        shown_ratio(row.over_ceiling), shown_ratio(row.over_fio),
        row.cpu_s_per_gb.empty() ? "-" : fmt::format("{:.2f}", row.cpu_s_per_gb.median()),
        row.peak_bytes.empty() ? "-" : fmt::format("{:.0f}", row.peak_bytes.median() / (1 << 20)));
  if (std::any_of(r.rows.begin(), r.rows.end(), cached))
    out += "* written to the page cache, not durable\n";
  for (const auto& s : r.skipped) out += fmt::format("left out: {}: {}\n", s.id, s.reason);
  if (const auto* ours = find(r, "ours"); ours && !ours->restore_s.empty())
    out +=
        fmt::format("restore {} s, {} of the raw read, {} wrong bytes\n",
                    shown(ours->restore_s, 1, 2), shown(ours->over_raw_read, 1, 2), r.wrong_bytes);
  for (const auto& a : judge(r))
    out += a.value ? fmt::format("{}: {}: {:.3f}, aim {:.2f}\n", a.met() ? "met" : "NOT MET",
                                 a.what, *a.value, a.limit)
                   : fmt::format("not judged: {}: {}\n", a.what, a.why_not);
  return out;
}

nlohmann::ordered_json json(const size_report& r) {
  nlohmann::ordered_json out{{"bytes", r.bytes},
                             {"parameters", r.parameters},
                             {"chunks", r.chunks},
                             {"rounds", r.rounds},
                             {"iterations", r.iterations},
                             {"iteration_s", r.iteration_s},
                             {"update_s", r.update_s},
                             {"ring_bytes", r.ring_bytes},
                             {"pressure", r.pressure()},
                             {"raw_write_s", json_of(r.ceiling_s)},
                             {"fio_write_s", json_of(r.fio_s)},
                             {"raw_read_s", json_of(r.raw_read_s)},
                             {"disk",
                              {{"device", r.disk.device},
                               {"backend", r.disk.backend},
                               {"chunk_bytes", r.disk.best.chunk_bytes},
                               {"depth", r.disk.best.depth}}},
                             {"unsteady_rounds", r.unsteady_rounds},
                             {"wrong_bytes", r.wrong_bytes}};
  out["ways"] = nlohmann::ordered_json::array();
  for (const auto& row : r.rows)
    out["ways"].push_back({{"way", row.way.id},
                           {"durable", row.way.durable},
                           {"blocked_s", json_of(row.blocked_s)},
                           {"slowdown", json_of(row.slowdown)},
                           {"finished_s", json_of(row.finished_s)},
                           {"over_raw_write", json_of(row.over_ceiling)},
                           {"over_fio_write", json_of(row.over_fio)},
                           {"cpu_s_per_gb", json_of(row.cpu_s_per_gb)},
                           {"peak_bytes", json_of(row.peak_bytes)},
                           {"restore_s", json_of(row.restore_s)},
                           {"over_raw_read", json_of(row.over_raw_read)}});
  out["skipped"] = nlohmann::ordered_json::array();
  for (const auto& s : r.skipped) out["skipped"].push_back({{"way", s.id}, {"reason", s.reason}});
  out["aims"] = nlohmann::ordered_json::array();
  for (const auto& a : judge(r)) {
    nlohmann::ordered_json j{{"aim", a.what}, {"limit", a.limit}};
    if (a.value) {
      j["value"] = *a.value;
      j["met"] = a.met();
    } else {
      j["not_judged"] = a.why_not;
    }
    out["aims"].push_back(std::move(j));
  }
  return out;
}

}  // namespace troupe::apps::ckpt_bench
