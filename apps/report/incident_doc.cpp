// Fields to keys, and what is left out where there is no room.
#include "apps/report/incident_doc.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "io/base/printable.hpp"

namespace troupe::report {

namespace {

using nlohmann::ordered_json;

/// What is left out, one after the other, until there is room (DOC-1).
enum class part : uint8_t { vitals, waits, findings };
constexpr std::string_view part_names[] = {"vitals", "waits", "findings"};

ordered_json span_or_null(double s) {
  return s < 0 || !std::isfinite(s) ? ordered_json() : ordered_json(s);
}

ordered_json rank_or_null(int rank) {
  return rank < 0 ? ordered_json() : ordered_json(rank);
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(printable(text));
}

/// Milliseconds of a span; of one that is none, nothing.
int64_t ms_of(double s) {
  constexpr double year_s = 366.0 * 86'400;
  return s > 0 && s < year_s ? static_cast<int64_t>(s * 1e3) : 0;
}

/// When each moment was, by the wall clock of the head.
ordered_json moments(const incident_doc& d) {
  const auto& i = d.fault;
  const auto fault = d.noticed_unix_ms - ms_of(i.noticed_s);
  const auto when = [&](double s) {
    return s < 0 ? ordered_json() : text_or_null(wall_text(fault + ms_of(s)));
  };
  return {{"fault", text_or_null(wall_text(fault))},
          {"noticed", when(i.noticed_s)},
          {"named", when(i.named_s)},
          {"back", when(i.back_s)}};
}

/// What a rule said.
void put_rule(const fbs::IncidentT& i, ordered_json& into) {
  into["rule"] = i.rule == 0 ? ordered_json() : ordered_json(i.rule);
  into["action"] = i.rule == 0 ? ordered_json() : ordered_json(printable(i.action));
  const bool counted = i.rule != 0 && i.times_left >= 0;
  into["times_left"] = counted ? ordered_json(i.times_left) : ordered_json();
}

ordered_json json_of(const incident_decision& d, const std::vector<part>& without) {
  const auto has = [&](part p) {
    return std::find(without.begin(), without.end(), p) == without.end();
  };
  ordered_json j;
  j["at"] = text_or_null(wall_text(d.at_unix_ms));
  j["finding"] = printable(d.fault.finding);
  j["node"] = text_or_null(d.fault.node);
  j["what"] = printable(d.fault.what);
  put_rule(d.fault, j);
  j["findings"] = has(part::findings) ? d.findings : ordered_json::array();
  j["waits"] = has(part::waits) ? d.waits : ordered_json();
  j["vitals"] = has(part::vitals) ? d.vitals : ordered_json::array();
  j["vitals_left_out"] = d.vitals_left_out;
  return j;
}

std::string text_without(const incident_doc& d, const std::vector<part>& without) {
  const auto& i = d.fault;
  const bool ended = d.over && i.fell_after_step >= i.resumed_after_step;
  ordered_json j;
  j["type"] = "incident";
  j["schema"] = incident_schema;
  j["number"] = i.number;
  j["job"] = printable(d.job);
  j["state"] = d.over ? "over" : "recovering";
  j["finding"] = printable(i.finding);
  j["node"] = text_or_null(i.node);
  j["what"] = printable(i.what);
  j["at"] = moments(d);
  j["noticed_s"] = span_or_null(i.noticed_s);
  j["named_s"] = span_or_null(i.named_s);
  j["back_s"] = span_or_null(i.back_s);
  j["epoch_from"] = i.epoch_from;
  j["epoch_to"] = i.epoch_to;
  j["fell_after_step"] = i.fell_after_step;
  j["resumed_after_step"] = d.over ? ordered_json(i.resumed_after_step) : ordered_json();
  j["steps_repeated"] =
      ended ? ordered_json(i.fell_after_step - i.resumed_after_step) : ordered_json();
  put_rule(i, j);
  j["done"] = text_or_null(i.done);
  j["black_boxes"] = d.black_boxes;
  j["decisions"] = ordered_json::array();
  for (const auto& decision : d.decisions) j["decisions"].push_back(json_of(decision, without));
  j["decisions_left_out"] = d.decisions_left_out;
  j["left_out"] = ordered_json::array();
  for (const auto p : without) j["left_out"].push_back(part_names[static_cast<size_t>(p)]);
  return j.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void incident_doc::add(incident_decision decision) {
  if (decisions.size() == most_decisions_kept) {
    decisions.pop_back();
    ++decisions_left_out;
  }
  decisions.push_back(std::move(decision));
}

std::string wall_text(int64_t unix_ms) {
  constexpr int64_t year_10000_ms = 253'402'300'800'000;
  if (unix_ms < 0 || unix_ms >= year_10000_ms) return {};
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::time_t{unix_ms / 1000}),
                     unix_ms % 1000);
}

std::string incident_doc_json(const incident_doc& doc, size_t most_bytes) {
  std::vector<part> without;
  auto out = text_without(doc, without);
  for (const auto p : {part::vitals, part::waits, part::findings}) {
    if (out.size() <= most_bytes) return out;
    without.push_back(p);
    out = text_without(doc, without);
  }
  return out;  // texts of bounded length are left
}

ordered_json findings_then(const std::vector<std::unique_ptr<fbs::FindingT>>& all, int64_t now_ns) {
  const auto ago_s = [&](int64_t then_ns) {
    return static_cast<double>(std::max<int64_t>(0, now_ns - then_ns)) / 1e9;
  };
  auto out = ordered_json::array();
  for (const auto& f : all) {
    ordered_json j{
        {"name", printable(f->name)},    {"severity", fbs::EnumNameFindingSeverity(f->severity)},
        {"node", text_or_null(f->node)}, {"rank", rank_or_null(f->rank)},
        {"peer", rank_or_null(f->peer)}, {"seen", f->seen},
        {"wanted", f->wanted},           {"unit", printable(f->unit)},
        {"text", printable(f->text)},    {"for_s", ago_s(f->since_ns)}};
    if (!f->doctor.empty()) j["doctor"] = printable(f->doctor);
    if (f->gone_ns != 0) j["gone_s"] = ago_s(f->gone_ns);
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace troupe::report
