// A job that a benchmark starts as a person would, as a child whose lines are heard as they come.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/checkpoint_process.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// The program beside this one, whose verbs a benchmark uses.
std::string own_program();

/// Writes a text of 20,000 drawn words, the same each time, to train on. Errors: io.
status write_words(const std::filesystem::path& file);

/// A step that a line of a job tells of, which logs in JSON. What is not finite, or not there, is
/// NaN.
struct job_step {
  int step = 0, epoch = 1;
  double loss = 0, ms = 0;
  std::string power_source;  ///< "measured", "modelled", or empty: no watts are known
  double op_ms = 0;          ///< the longest of its kinds of operations, all of a kind together
};
/// Whether two losses are of the same bits; all that are no numbers are the same.
bool same_loss(double a, double b);
/// Nothing where the line is of something else.
std::optional<job_step> job_step_of(const std::string& line);

/// A child of the launcher, or of one of its children, with these words in its command line or
/// environment; 0: there is none.
pid_t child_with(pid_t launcher, const std::vector<std::string>& wanted);

/// One launch, and what it says. Ended with all that it started where it still runs when this goes.
class job_launch {
 public:
  /// `command`: the program and its words. `stop`: a person interrupts; may be null.
  static result<job_launch> start(const std::vector<std::string>& command,
                                  const std::atomic<bool>* stop);

  pid_t pid() const { return child_->pid(); }

  /// The next line; nothing at its end. Errors: cancelled; timeout after minutes of silence.
  result<std::optional<std::string>> hear();

  /// Asks it to end where it still runs, and waits for seconds at most: nothing of it writes then.
  void end();

  /// A line that is there now, or comes within that time.
  std::optional<std::string> said_already(double within_s = 1e-3);

  /// Nothing more will be heard of it.
  bool has_ended() const { return child_->has_ended(); }

  /// What it said last, for an error.
  std::string last_words() const;

 private:
  job_launch(std::unique_ptr<ckpt_bench::child_process> child, const std::atomic<bool>* stop)
      : child_(std::move(child)), stop_(stop) {}
  void note(const std::string& line);

  std::unique_ptr<ckpt_bench::child_process> child_;
  const std::atomic<bool>* stop_;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
  std::vector<std::string> said_;
};

/// A tool from its start to its end. Errors: unavailable where that is not 0, and those of hear().
status run_tool(const std::vector<std::string>& command, const std::atomic<bool>* stop);

}  // namespace troupe::apps
