// The lines of log.jsonl beside those of steps: what a launch is, where it goes on from, what was
// set, what was warned of, a validation that is no step's. docs/log.md has all of them.
//
// Each is one JSON object without a line end that begins with its type and the wall time; what is
// unknown is left out. Readers leave alone what they do not know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::report {

/// A launch of a job begins: the first line of it.
struct run_start {
  double unix_s = 0;
  std::string job;      ///< its name
  std::string version;  ///< of the program
  int64_t epoch = 0;    ///< of the cluster
  int64_t step = 0;     ///< that its first step follows
  int64_t steps = 0;    ///< the last one
  int64_t nodes = 0, workers = 0;
  int64_t data = 0, pipeline = 0;       ///< ranks
  std::vector<std::string> hosts = {};  ///< of the nodes, each once
  struct host_facts {
    std::string name, processor;
    uint64_t cores = 0, memory_bytes = 0;
  };
  host_facts machine = {};         ///< where the head is
  std::vector<std::pair<std::string, std::string>> versions = {};  ///< names and versions
  std::optional<bool> previous_ended = {};  ///< the launch before has an `end`; none: there is none
  std::string configuration = {};  ///< as it holds for the launch, a JSON object
};
std::string start_json(const run_start& s);

/// A node has joined.
struct run_node {
  double unix_s = 0;
  int64_t epoch = 0;
  std::string node;
  bool is_spare = false;
  std::string host = {}, processor = {};
  uint64_t cores = 0, memory_bytes = 0;
  std::vector<std::string> gpus = {};
  std::string gpu_driver = {};  ///< its version
};
std::string node_json(const run_node& n);

/// How a launch ended. `done`: the last step is made. `stopped`: by an order of a person. `signal`
/// also where nothing was saved. `replaced`: another head acts. `again`: the state that it began
/// with cannot be loaded, and the next start follows in the same process.
enum class end_reason : uint8_t { done, stopped, signal, error, replaced, again };
std::string_view to_string(end_reason reason);

/// The last line of a launch.
struct run_over {
  double unix_s = 0;
  int64_t epoch = 0;
  int64_t step = 0;    ///< the last that is done
  double seconds = 0;  ///< since the start was written
  end_reason reason = end_reason::done;
  std::optional<int> code = {};  ///< of the process; none: it goes on
  std::string text = {};         ///< what happened
};
std::string end_json(const run_over& e);

/// Whether the launch whose lines a log has last has its end; none: there is no line of one.
/// `tail`: the last bytes of the log; what its first line is cut off from does not matter.
std::optional<bool> has_end(std::string_view tail);

/// Steps go on from a saved state: at a start, or after a fault.
struct run_resumed {
  double unix_s = 0;
  int64_t step = 0;  ///< whose state it is
  int64_t epoch = 0;
  std::string checkpoint = {};  ///< its folder; empty: `why` says where the state came from
  std::string why = {};         ///< what was done about a fault; empty: it is a start
};
std::string resume_json(const run_resumed& r);

/// A person has set a key of the configuration, and the run has taken it.
struct run_setting {
  double unix_s = 0;
  std::string key, value;  ///< the value as it was given
  std::string who;
  int64_t first_step = 0;  ///< that uses it; 0: none is named
};
std::string set_json(const run_setting& s);
/// "train.lr = 0.001 from step 51 on (anna)".
std::string set_text(const run_setting& s);

/// Something to look at; the run goes on.
std::string warning_json(double unix_s, int64_t step, const std::string& text);

/// Which layers the stages have, "8,4", where nodes have measured what a layer takes them.
std::string layers_json(double unix_s, const std::string& layers, const std::string& text);

/// Of the state after a step whose line was written without one.
std::string validation_json(double unix_s, int64_t step, int64_t epoch, double loss);

/// The same for a person: "step 3 | validation 2.951".
std::string validation_line(int64_t step, double loss);

/// Whether a line is one that this program begins a log with, or began one before there were lines
/// of starts.
bool begins_log(const std::string& line);

}  // namespace troupe::report
