// `troupe sim --days`: what the command line says of it, and what is shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/sim/days/day_model.hpp"
#include "apps/command_line.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// Options of `troupe sim` that only mean something with --days; what it shares with the others
/// (nodes, workers, seed, --checkpoint-every, --json) is handed over.
struct days_arguments {
  double days = 0;  ///< 0: not asked for
  std::string mix = "llama3";
  std::string as = "ours";
  double rate = 0, detect_s = 0, restart_s = 0;
  uint64_t steps_lost = 0;
  int spares = 0;         ///< where it is given; else as `troupe plan` asks for
  uint64_t copies = 0;    ///< where it is given; else as assumed
  int measure_nodes = 0;  ///< 0: as many as there are, up to `measured_nodes`
  bool planned = false, sensitivity = false;
  std::string svg;
  /// Which of them were given.
  std::vector<std::pair<std::string, argument*>> given;

  /// More nodes are thought to take as much longer as they are more.
  static constexpr int measured_nodes = 256;
};

/// The option --days itself.
argument* add_days(command* verb, days_arguments& into);

/// The name of an option of --days that was given, or empty.
std::string days_option_given(const days_arguments& a);

struct days_cluster {
  int nodes = 0, workers = 0;
  uint64_t seed = 1;
  std::optional<uint64_t> checkpoint_every;
  bool json = false;
};

/// Errors: usage, where options do not go together; bad_data, of a mix that is a file.
result<int> run_days(const days_arguments& a, const days_cluster& cluster);

// -- what is shown --------------------------------------------------------------------------------

/// A simulation and what it was made from.
struct days_told {
  sim::day_options options;
  bool spares_by_plan = false;   ///< as many as `troupe plan` asks for
  sim::protocol_times protocol;  ///< as measured
  sim::day_times times;
  sim::day_outcome outcome;
  double sim_s = 0;  ///< that the simulation itself took, with its measurement
};

/// Effective by what is varied.
struct sensitivity_row {
  std::string what;
  double effective = 0, unaided = 0;
};

/// Of incidents that stopped the job: the part that needed nobody.
double unaided_of(const sim::day_outcome& outcome);
/// The least effective whole hour.
double worst_hour_of(const sim::day_outcome& outcome);
/// A time of its incidents, by nearest rank, in seconds; nothing where it never came.
std::optional<double> percentile_s(const sim::day_outcome& outcome,
                                   int64_t sim::day_incident::*when, double percent);

/// "after each step"; "never".
std::string copies_text(const sim::day_options& options);
std::string days_text(const days_told& told);
std::string days_json(const days_told& told, const std::vector<sensitivity_row>& rows);
std::string days_svg(const days_told& told);

}  // namespace troupe::apps
