// A line of incidents.jsonl.
#include <nlohmann/json.hpp>

#include "apps/report/report.hpp"

namespace troupe::report {

namespace {

nlohmann::ordered_json since_fault(double s) {
  return s < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(s);
}

}  // namespace

std::string incident_json(const incident& i) {
  nlohmann::ordered_json j;
  j["type"] = "incident";
  j["number"] = i.number;
  j["at"] = i.at;
  j["finding"] = i.finding;
  j["node"] = i.node;
  j["what"] = i.what;
  j["noticed_s"] = since_fault(i.noticed_s);
  j["named_s"] = since_fault(i.named_s);
  j["back_s"] = since_fault(i.back_s);
  j["epoch_from"] = i.epoch_from;
  j["epoch_to"] = i.epoch_to;
  j["fell_after_step"] = i.fell_after_step;
  j["resumed_after_step"] = i.resumed_after_step;
  j["done"] = i.done;
  if (i.rule != 0) {
    j["rule"] = i.rule;
    j["action"] = i.action;
  }
  j["folder"] = i.folder.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(i.folder);
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace troupe::report
