// From messages to a folder.
#include "apps/up/incident_keeper.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "messages/registry.hpp"

namespace troupe::apps {

namespace {

using nlohmann::ordered_json;

constexpr int numbers_tried = 8;  ///< of folders: others take some at the same time
/// Files of a moment may bear a time that is a little earlier: the clock of files is coarse.
constexpr int64_t coarse_ms = 100;

int64_t unix_ms(incident_keeper::wall_clock::time_point at) {
  return std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

/// Of a time that a message tells; of one that is none, nothing.
int64_t ms_of(double s) {
  constexpr double year_s = 366.0 * 86'400;
  return s > 0 && s < year_s ? static_cast<int64_t>(s * 1e3) : 0;
}

/// What nodes said of themselves, as messages are told as JSON.
ordered_json vitals_in(const msg<fbs::Evidence>& m) {
  const auto told = ordered_json::parse(to_json(m), nullptr, false);
  auto out = ordered_json::array();
  if (!told.is_object() || !told.contains("vitals") || !told["vitals"].is_array()) return out;
  for (const auto& node : told["vitals"]) {
    const auto heard_ns = node.value("heard_ns", int64_t{0});
    out.push_back({{"node", node.value("node", "")},
                   {"before_s", static_cast<double>(m->now_ns() - heard_ns) / 1e9},
                   {"vitals", node.value("vitals", ordered_json::object())}});
  }
  return out;
}

report::incident_decision decision_in(const msg<fbs::Evidence>& m, const fbs::EvidenceT& said,
                                      int64_t at_ms) {
  report::incident_decision out{*said.incident, at_ms};
  out.findings = report::findings_then(said.findings, said.now_ns);
  if (!said.waits_json.empty())
    if (auto graph = ordered_json::parse(said.waits_json, nullptr, false); graph.is_object()) {
      graph["before_s"] = static_cast<double>(said.now_ns - said.waits_ns) / 1e9;
      out.waits = std::move(graph);
    }
  out.vitals = vitals_in(m);
  out.vitals_left_out = said.vitals_left_out;
  return out;
}

}  // namespace

/// Whether it is the newest one, which it becomes where it has begun since; one before is past.
bool incident_keeper::begin(const fbs::IncidentT& fault, wall_clock::time_point now) {
  if (doc_ && doc_->fault.number > fault.number) return false;
  if (!doc_ || doc_->fault.number < fault.number) {
    if (doc_) before_ = {doc_->fault.number, kept_as(doc_->fault.number), folder_};
    doc_.emplace();
    doc_->job = job_;
    doc_->noticed_unix_ms = unix_ms(now) - ms_of(fault.ago_s);
    kept_as_ = std::max(fault.number, before_.folder.empty() ? 0 : before_.kept_as + 1);  // IKP-3
    waits_text_ = waits_dot_ = folder_ = {};
    over_.reset();
  }
  if (!doc_->over) doc_->fault = fault;  // IKP-1
  return true;
}

result<std::string> incident_keeper::write_as(uint64_t number) {
  auto d = *doc_;
  d.fault.number = number;
  return folders_.write(
      number, {report::incident_doc_json(d, max_incident_bytes), waits_text_, waits_dot_});
}

status incident_keeper::write() {
  auto& d = *doc_;
  const auto fault_ms = d.noticed_unix_ms - ms_of(d.fault.noticed_s);
  d.black_boxes = black_boxes_since(output_, fault_ms - coarse_ms);
  auto folder = write_as(kept_as_);
  for (int i = 0; i < numbers_tried && !folder && folder.error().is(folder_is_there); ++i) {
    kept_as_ = last_incident(output_) + 1;  // IKP-3
    folder = write_as(kept_as_);
  }
  if (folder) {
    folder_ = std::move(*folder);
    return {};
  }
  if (std::exchange(told_, d.fault.number) == d.fault.number) return {};  // IKP-2
  return folder.error();
}

status incident_keeper::decided(const msg<fbs::Evidence>& m, wall_clock::time_point now) {
  const auto said = m.unpack();
  if (!said.incident || !begin(*said.incident, now)) return {};
  doc_->add(decision_in(m, said, unix_ms(now)));
  if (waits_text_.empty()) {
    waits_text_ = said.waits_text;
    waits_dot_ = said.waits_dot;
  }
  return write();
}

status incident_keeper::over(const fbs::IncidentT& fault, wall_clock::time_point now) {
  if (!begin(fault, now)) return {};
  doc_->over = true;
  over_ = now;
  return write();
}

status incident_keeper::look_again(wall_clock::time_point now) {
  if (!over_ || folder_.empty()) return {};
  if (now - *over_ > defaults::black_box_wait || now < *over_) over_.reset();
  const auto& d = *doc_;
  const auto fault_ms = d.noticed_unix_ms - ms_of(d.fault.noticed_s);
  if (black_boxes_since(output_, fault_ms - coarse_ms) == d.black_boxes) return {};
  return write();
}

uint64_t incident_keeper::kept_as(uint64_t number) const {
  if (before_.number == number) return before_.kept_as;
  return doc_ && doc_->fault.number == number && !folder_.empty() ? kept_as_ : number;
}

std::string incident_keeper::folder_of(uint64_t number) const {
  if (before_.number == number) return before_.folder;
  return doc_ && doc_->fault.number == number ? folder_ : std::string();
}

}  // namespace troupe::apps
