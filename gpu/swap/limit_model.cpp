// The roofline, and a table of published runs.
#include "gpu/swap/limit_model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace troupe::gpu {

namespace {

double seconds_for(double work, double rate) {
  return rate > 0 ? work / rate : 0;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto comma = line.find(',');
    auto cell = line.substr(0, comma);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"' || cell.back() == '\r'))
      cell.remove_suffix(1);
    out.push_back(cell);
    if (comma == line.npos) return out;
    line.remove_prefix(comma + 1);
  }
}

struct column {
  std::string_view name;
  double& (*of)(published_run&);
};

constexpr std::array columns{
    column{"parameters", [](published_run& r) -> double& { return r.parameters; }},
    column{"layers", [](published_run& r) -> double& { return r.layers; }},
    column{"hidden", [](published_run& r) -> double& { return r.hidden; }},
    column{"seq", [](published_run& r) -> double& { return r.seq; }},
    column{"batch", [](published_run& r) -> double& { return r.batch; }},
    column{"flops_s", [](published_run& r) -> double& { return r.rates.flops_s; }},
    column{"pcie_bytes_s", [](published_run& r) -> double& { return r.rates.link_bytes_s; }},
    column{"read_bytes_s", [](published_run& r) -> double& { return r.rates.read_bytes_s; }},
    column{"write_bytes_s", [](published_run& r) -> double& { return r.rates.write_bytes_s; }},
    column{"duplex", [](published_run& r) -> double& { return r.rates.duplex; }},
    column{"adam_parameters_s", [](published_run& r) -> double& { return r.rates.updates_s; }},
    column{"state_bytes", [](published_run& r) -> double& { return r.state_bytes; }},
    column{"recompute", [](published_run& r) -> double& { return r.recompute; }},
    column{"measured_s", [](published_run& r) -> double& { return r.measured_s; }},
};

/// Where each column stands in a line, and last where the name does.
result<std::vector<size_t>> places_in(const std::vector<std::string_view>& heading) {
  std::vector<size_t> out;
  const auto find = [&](std::string_view name) -> status {
    const auto it = std::find(heading.begin(), heading.end(), name);
    if (it == heading.end())
      return run_table_invalid(1, fmt::format("there is no column \"{}\"", name));
    out.push_back(static_cast<size_t>(it - heading.begin()));
    return {};
  };
  for (const auto& c : columns) TROUPE_CHECK(find(c.name));
  TROUPE_CHECK(find("name"));
  return out;
}

result<double> number_in(std::string_view cell, std::string_view name, size_t line) {
  double value = 0;
  const auto [end, wrong] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (wrong != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value) ||
      value < 0)
    return run_table_invalid(
        line, fmt::format("invalid {}: \"{}\", expected a number of 0 or more", name, cell));
  return value;
}

}  // namespace

phase_work& phase_work::operator+=(const phase_work& other) {
  flops += other.flops;
  link_bytes += other.link_bytes;
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  updates += other.updates;
  return *this;
}

std::string_view to_string(bound_by part) {
  constexpr std::array<std::string_view, 4> names{"products", "link", "disk", "updates"};
  return names[static_cast<size_t>(part)];
}

double disk_seconds(double read_bytes, double written_bytes, const machine_rates& rates) {
  const double reads = seconds_for(read_bytes, rates.read_bytes_s);
  const double writes = seconds_for(written_bytes, rates.write_bytes_s);
  return std::max(reads, writes) + (1 - rates.duplex) * std::min(reads, writes);
}

time_limit limit_of(const phase_work& work, const machine_rates& rates) {
  time_limit out{seconds_for(work.flops, rates.flops_s), bound_by::products};
  const auto also = [&out](double seconds, bound_by part) {
    if (seconds > out.seconds) out = {seconds, part};
  };
  also(seconds_for(work.link_bytes, rates.link_bytes_s), bound_by::link);
  also(disk_seconds(work.read_bytes, work.written_bytes, rates), bound_by::disk);
  also(seconds_for(work.updates, rates.updates_s), bound_by::updates);
  return out;
}

std::vector<phase_work> phases_of(const published_run& run) {
  const double tokens = run.seq * run.batch;
  const double flops = 2 * run.parameters * tokens + 4 * run.seq * run.hidden * run.layers * tokens;
  const double weights = 2 * run.parameters;  // bytes, in half precision
  // The inputs of layers go to the host where layers are computed again.
  const double inputs = run.recompute > 0 ? 2 * run.hidden * run.layers * tokens : 0;
  const phase_work forward{flops, std::max(weights, inputs), weights, 0, 0};
  // Weights with files of their own are read for the products beside the 12 bytes of state.
  const phase_work backward{(2 + run.recompute) * flops, weights + inputs, 14 * run.parameters,
                            run.state_bytes * run.parameters, run.parameters};
  return {forward, backward};
}

result<std::vector<published_run>> parse_published_runs(std::string_view csv) {
  std::vector<published_run> out;
  std::vector<size_t> places;
  for (size_t line = 1; !csv.empty(); ++line) {
    const auto end = csv.find('\n');
    const auto text = csv.substr(0, end);
    csv.remove_prefix(end == csv.npos ? csv.size() : end + 1);
    const auto cells = cells_of(text);
    if (places.empty()) {
      TROUPE_TRY(found, places_in(cells));
      places = std::move(found);
      continue;
    }
    if (cells.size() == 1 && cells.front().empty()) continue;
    published_run run;
    for (size_t c = 0; c <= columns.size(); ++c) {
      if (places[c] >= cells.size())
        return run_table_invalid(
            line, fmt::format("{} cells, expected {}", cells.size(), columns.size() + 1));
      if (c == columns.size()) break;
      TROUPE_TRY(value, number_in(cells[places[c]], columns[c].name, line));
      columns[c].of(run) = value;
    }
    run.name = std::string(cells[places.back()]);
    if (run.rates.duplex > 1 || run.rates.flops_s == 0 || run.rates.read_bytes_s == 0 ||
        run.rates.write_bytes_s == 0)
      return run_table_invalid(line,
                               "expected flops_s, read_bytes_s and write_bytes_s above 0 and "
                               "duplex of at most 1");
    out.push_back(std::move(run));
  }
  return out;
}

}  // namespace troupe::gpu
