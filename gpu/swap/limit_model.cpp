// The roofline, and a table of published runs.
#include "gpu/swap/limit_model.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "io/perf/csv.hpp"

namespace troupe::gpu {

namespace {

double seconds_for(double work, double rate) {
  return rate > 0 ? work / rate : 0;
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

result<published_run> run_of(const io::perf::csv& table, const io::perf::csv_row& row) {
  published_run out;
  for (const auto& c : columns) {
    TROUPE_TRY(place, table.need(c.name));
    const auto value = io::perf::number_in(row.cells[place]);
    if (!value || *value < 0)
      return io::perf::bad_csv(table.name, row.line,
                               fmt::format("invalid {}: \"{}\", expected a number of 0 or more",
                                           c.name, row.cells[place]));
    c.of(out) = *value;
  }
  TROUPE_TRY(name, table.need("name"));
  out.name = std::string(io::perf::trimmed(row.cells[name]));
  if (out.rates.duplex > 1 || out.rates.flops_s == 0 || out.rates.read_bytes_s == 0 ||
      out.rates.write_bytes_s == 0)
    return io::perf::bad_csv(table.name, row.line,
                             "expected flops_s, read_bytes_s and write_bytes_s above 0 and duplex "
                             "of at most 1");
  return out;
}

}  // namespace

phase_work& phase_work::operator+=(const phase_work& other) {
  flops += other.flops;
  link_bytes += other.link_bytes;
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  updates += other.updates;
  summed_bytes += other.summed_bytes;
  return *this;
}

std::string_view to_string(bound_by part) {
  constexpr std::array<std::string_view, 5> names{"products", "link", "disk", "updates",
                                                  "processors"};
  return names[static_cast<size_t>(part)];
}

double disk_seconds(double read_bytes, double written_bytes, const machine_rates& rates) {
  const double reads = seconds_for(read_bytes, rates.read_bytes_s);
  const double writes = seconds_for(written_bytes, rates.write_bytes_s);
  return std::max(reads, writes) + (1 - rates.duplex) * std::min(reads, writes);
}

double seconds_of_processors(const phase_work& work, const machine_rates& rates) {
  const auto& all = rates.processors;
  return seconds_for(work.flops, all.flops_s) + seconds_for(work.updates, all.updates_s) +
         seconds_for(work.summed_bytes, all.sum_bytes_s);
}

time_limit limit_of(const phase_work& work, const machine_rates& rates) {
  time_limit out{seconds_for(work.flops, rates.flops_s), bound_by::products};
  const auto also = [&out](double seconds, bound_by part) {
    if (seconds > out.seconds) out = {seconds, part};
  };
  also(seconds_for(work.link_bytes, rates.link_bytes_s), bound_by::link);
  also(disk_seconds(work.read_bytes, work.written_bytes, rates), bound_by::disk);
  also(seconds_for(work.updates, rates.updates_s), bound_by::updates);
  also(seconds_of_processors(work, rates), bound_by::processors);  // ROOF-3
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

result<std::vector<published_run>> parse_published_runs(std::string_view text,
                                                        const std::string& file) {
  TROUPE_TRY(table, io::perf::parse_csv(text, file));
  for (const auto& c : columns) TROUPE_CHECK(table.need(c.name));
  TROUPE_CHECK(table.need("name"));
  std::vector<published_run> out;
  for (const auto& row : table.rows) {
    TROUPE_TRY(run, run_of(table, row));
    out.push_back(std::move(run));
  }
  return out;
}

}  // namespace troupe::gpu
