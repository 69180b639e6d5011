// The reporter: what a person and the log see of a run. An actor of the launcher's process,
// detached because files may block.
//
// stdout carries steps (plain lines or JSON), stderr what is said beside; {output}/log.jsonl has
// every step as JSON whatever the terminal shows, and what a reader needs beside (docs/log.md). A
// log that cannot be written is a warning and a state in `troupe status reporter`, and goes on as
// soon as it can be. {output}/incidents.jsonl has
// a line for each fault, {output}/incidents/NUMBER what is known of it (incident_folders.hpp).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/base/traced.hpp"
#include "apps/ceiling_watch.hpp"
#include "apps/past_steps.hpp"
#include "apps/report/report.hpp"
#include "apps/swap/rates.hpp"
#include "apps/up/incident_keeper.hpp"
#include "apps/up/line_log.hpp"
#include "apps/up/progress_pace.hpp"
#include "apps/up/run_log.hpp"
#include "apps/up/slow_drive_policy.hpp"
#include "gpu/swap/kept_rates_policy.hpp"
#include "io/config/job.hpp"
#include "messages/actors.hpp"

namespace troupe::apps {

/// What a run came to; filled by the reporter, read by the launcher once `over`.
struct run_outcome {
  std::mutex mutex;
  bool over = false;
  error why{errc::none, ""};
  uint64_t last_step = 0;
  report::summary summary;
  step_times times;
  std::optional<run_machines> machines;  ///< of a job that is not of this machine alone
  double step_flops = 0;  ///< as plans count them: over whole windows
};

struct reporter_options {
  config::job job;
  std::shared_ptr<ceiling_watch> peak;  ///< of all workers together; null: unknown
  std::shared_ptr<run_log> log;
  std::shared_ptr<run_outcome> outcome;
  std::function<void()> ended;  ///< called once, after `outcome` is over
  /// Called for each step, with the newest one that is saved by then.
  std::function<void(uint64_t step, uint64_t saved_step)> stepped = {};
  std::optional<swap::step_limits> swap_limits = {};  ///< none: not known, or no rank swaps
  uint64_t after_step = 0;  ///< whose state the job goes on from, as the log says already
  uint32_t epoch = 0;       ///< that it begins in
  /// What it is trained on, kept for later starts once a step is made; empty: it is not, or is
  /// already. A start that comes to no step leaves the mark of the one before, so that who tries
  /// again is told of other data, and the log of that run says so.
  std::string data_mark = {};
};

struct reporter_state {
  static inline const char* name = "reporter";
  reporter_options options;
  std::optional<line_log> incidents;  ///< made by the first one
  std::optional<incident_keeper> folders;
  bool rewriting = false;  ///< the terminal's last line is a step's
  bool progressing = false;  ///< it says how far something is
  progress_pace progress;
  double spent_ms = 0;
  uint64_t steps_seen = 0;
  uint64_t step = 0;    ///< that it heard of last
  uint32_t epoch = 0;   ///< in which
  std::string back_by;  ///< what was done about the last fault
  uint64_t written_bytes = 0;  ///< to drives, by the steps that it heard of
  slow_drive_policy drive;
  std::optional<gpu::kept_rates_policy> kept_rates;  ///< once a step that swaps is told
};

reporter_actor::behavior_type reporter(traced_pointer<reporter_actor, reporter_state> self,
                                       reporter_options options);

}  // namespace troupe::apps
