// What a person sees of a training run: the line of a step, its JSON twin, the loss curve, the
// summary.
//
// Why apart from the verbs: all of it is text made from plain structs, so that golden tests hold it
// and `up`, tools and docs show the same. Nothing here reads a clock, a terminal or a file.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace troupe::report {

/// What one kind of operation took of a step, the mean over the ranks.
struct step_part {
  std::string kind;      ///< "forward"
  double busy_ms = 0;    ///< while it was done; a transfer's includes the wait for its other end
  double waited_ms = 0;  ///< while the device had nothing to do before it
  uint64_t work = 0;     ///< tokens, parameters or bytes, over all ranks
};

/// What moved between a drive and memory in a step (docs/swap.md), of all ranks together.
struct swap_traffic {
  uint64_t read_bytes = 0, written_bytes = 0;
  int passes = 1;      ///< forward and backward over the batch: 2 where the first was for the norm
  double wait_ms = 0;  ///< while devices had nothing to do before the drive gave; a rank's mean
  /// The kind of operations that read, and that write, for the longest; a rank's mean.
  double read_ms = 0, write_ms = 0;
  double limit_ms = 0;       ///< that the step takes at least on this machine; 0: not known
  /// The same by the rates that the drive has kept so far; 0: those measured at the start.
  double limit_kept_ms = 0;
  std::string bound_by = {};  ///< which part of the machine does, by what was measured
};

/// What the machines of a job draw.
struct power_drawn {
  double power_w = 0;
  bool modelled = false;  ///< a part of it at least is calculated; marked wherever it is shown
  double energy_j = -1;   ///< since the run's head began; -1: not known
};

/// One optimizer step.
struct step_report {
  int64_t step = 0;      ///< from 1
  int64_t steps = 0;     ///< the last one
  double loss = 0;       ///< mean cross-entropy over the step's tokens, nats, before its update
  double grad_norm = 0;  ///< global gradient norm before clipping
  double lr = 0;
  double step_ms = 0;  ///< wall time of the step
  /// Achieved over measured peak FLOP/s, 0 to 1; NaN if the peak is unknown.
  double peak_ratio = std::numeric_limits<double>::quiet_NaN();
  double tokens_per_s = 0;
  double eta_s = 0;                       ///< estimated time to the end
  std::optional<double> validation_loss;  ///< if this step ended with a validation
  double checkpoint_wait_ms = 0;          ///< how long checkpoints held the step up
  int64_t saved_step = 0;                 ///< the newest step whose checkpoint is committed
  int64_t epoch = 0;  ///< of the cluster; a step that is made again has a greater one
  double unix_s = 0;  ///< when its end was told, seconds since 1970; 0: not known
  uint64_t tokens = 0;                    ///< trained on since step 1; 0: not known
  std::vector<step_part> parts = {};      ///< where the time went
  int64_t replicas = 0;  ///< that shared its batch, where they were fewer than the job has
  std::optional<swap_traffic> swap = {};  ///< none: all is in memory
  uint64_t process_peak_bytes = 0;  ///< resident at most so far, of the largest process with ranks
  std::optional<power_drawn> power = {};  ///< none: of one machine at least it is not known
  double pace_percent = 100;              ///< of its speed that a power budget left it
  std::string slack = {};                 ///< what comes of it; empty: the job takes none
  double power_wait_ms = 0;               ///< how long that held the step up
};

/// "step 120/300 | loss 2.913 | norm 0.81 | lr 3.0e-4 | 212 ms | 41.3 % of peak | 9,650 tok/s | ETA
/// 0:38"; the peak is left out when unknown, " | validation 2.951" follows the loss when there is
/// one, and " | 0.92 of the limit (disk) | 125.7 GiB read, 54.0 GiB written" the tokens where a
/// drive holds some of the model; before the ETA " | ~61 W" where watts are known (~: calculated)
/// and " | pace 52 %" where a power budget slows it down.
std::string step_line(const step_report& r);

/// The line as a terminal wants it: it returns to the first column and clears what stood there, cut
/// to `columns` so that it stays one line; without a line end.
std::string rewriting_line(const step_report& r, int columns);

/// The same fields as one JSON object without a line end: {"type":"step","step":1,...}; loss and
/// norm with 17 significant digits at most (they read back as the same double); what is unknown or
/// not finite is null.
std::string step_json(const step_report& r);

/// "0:38", "12:05", "3:04:05", "2 d 3 h"; "-" if it is not finite.
std::string duration(double seconds);

/// One point of a curve.
struct point {
  int64_t step = 0;
  double value = 0;
};

/// How a drawing may look.
struct canvas {
  int columns = 72;  ///< width in all, axis included; at least 24 is used
  int rows = 10;     ///< height without the step axis; at least 3 is used
  bool utf8 = true;  ///< braille dots; otherwise ASCII
  std::string unit = "step";  ///< what the axis counts
};

/// A curve over steps with labelled axes, drawn with dots; values that are not finite are left out.
/// Empty for fewer than two points. Lines end with '\n'.
std::string curve(const std::vector<point>& points, const canvas& on);

/// A fault that a run went through, as incidents.jsonl keeps it: {"type":"incident",...}, one JSON
/// object without a line end. `at` is when it was noticed (RFC 3339); times are seconds since the
/// fault, null where they did not come.
struct incident {
  std::string at;
  uint64_t number = 0;
  std::string finding, node, what, done;
  uint32_t epoch_from = 0, epoch_to = 0;
  uint64_t fell_after_step = 0, resumed_after_step = 0;
  double noticed_s = 0, named_s = -1, back_s = -1;
  uint32_t rule = 0;        ///< that was applied last, from 1; 0: none
  std::string action = {};  ///< what it does
  std::string folder = {};  ///< in the output folder, with all that is known; empty: none was made
};
std::string incident_json(const incident& i);

/// What `troupe plan` said of a step, about.
struct expected_ms {
  double step = 0, least = 0, most = 0;
  bool by_probes = false;  ///< of the machines alone: no step of such work was measured
};

/// What a run came to.
struct summary {
  double seconds = 0;               ///< wall time of training
  int64_t steps = 0;                ///< steps done by this run
  int64_t tokens = 0;               ///< tokens trained on by this run
  std::optional<expected_ms> expected = {};  ///< none: it was not planned here
  std::vector<point> losses;        ///< training loss of every step
  std::vector<point> validations;   ///< validation losses
  std::string resumed;              ///< where it went on from, as a person is told; empty: nowhere
  std::deque<std::string> settings = {};  ///< what persons have set last, as they are told
  uint64_t settings_before = 0;           ///< theirs that are left out
  std::string checkpoint;           ///< where the last checkpoint is; empty: none
  int64_t checkpoints = 0;          ///< committed by this run
  int64_t checkpoint_bytes = 0;     ///< of these
  int64_t skipped_checkpoints = 0;  ///< left out since older ones were under way
  double checkpoint_wait_ms = 0;    ///< how long they held training up in all
  double effective_percent = 0;     ///< useful steps of the wall time; 0: not told
  uint64_t recoveries = 0;          ///< of lost nodes
  uint64_t steps_repeated = 0;      ///< made again after them
  uint64_t process_peak_bytes = 0;  ///< as a step's; 0: not known
  std::optional<power_drawn> power = {};  ///< as the last step's
  double power_wait_ms = 0;               ///< how long a power budget held training up in all
  std::string model;                ///< where the exported model is; empty: none
  std::string log;                  ///< where log.jsonl is; empty: none
  std::string prompt;               ///< prompt of the sample
  std::string sample;               ///< generated text; empty: none
};

/// The summary for people, lines ending with '\n'. Control characters of the sample are made
/// visible.
std::string summary_text(const summary& s, const canvas& on);

/// The summary as one JSON object without a line end: {"type":"summary",...}.
std::string summary_json(const summary& s);

}  // namespace troupe::report
