// What the parts of a job's steps take, learned step by step: which steps count, what of them is
// learned, and what is asked.
//
// A part of a rank's step (forward, a transfer) and the step as a whole have a model each
// (gpu/predict/online_policy.hpp). Single steps are noisy, and some take far longer than others, so
// none is learned from by itself: of each window of a rank's steps the median is one sample. What a
// rank waits for is no part of it. A configuration is what the job's work is in numbers
// (io/config/work_shape.hpp), with the rank's own layers and threads, and the part's work.
//
// Invariants
//   LRN-1  Nothing is learned from a step that is not as others are, nor from an epoch's first
//     ones: kernels are chosen, memory is touched, groups make their first transfers. Of steps with
//     no save, beside one, and held up by one those are as others that most of the epoch are; which
//     of the three is a number that is learned with.
//   LRN-2  A window is of steps of one epoch, of the same work, on the same node: where one of
//     these changes, it begins anew. Each of the three kinds has its own, which wait while most
//     steps are of another: where that changes with every second step, each still learns.
//   LRN-3  What is kept is bounded by the ranks of the job, the nodes and the configurations that a
//     model keeps, however long it trains; a rank that the job has not is left out.
//   LRN-4  What was recalled is no news: a time is told once, by the job that it is of.
//   LRN-5  Of a part that takes longer than was expected of it, beyond the interval and by more
//     than predict.suspect_percent, nothing is learned for `doubted_windows`, or the times of a
//     sick machine would pass for the right ones. What lasts longer than that is how it is. Before
//     `known_by` of its windows of that kind were learned, or a file told of its node, no part is
//     doubted: of a machine whose sickness makes of all its steps a kind that the job had none of,
//     the sick times are learned.
//   LRN-6  After `suspect_windows` of these the part is a suspect, `suspects_kept` of them at once;
//     each is told of once, and so is its end: once it was judged, in whatever kind of step, to do
//     no more.
//   LRN-7  What came is held against what was expected of it before it was learned from. Of these,
//     errors are of the whole step, of its newest `judged_kept` windows.
//   LRN-8  What was measured outranks what was probed. Of a part without a model yet a roofline of
//     the probes is expected, with a wide interval that says so; of a node that the part's model
//     has not seen, what the others take by the ratio of its machine's rate to theirs. Nothing is
//     learned from either, and nobody is suspected by a roofline, nor by what others take. Where a
//     machine was not probed, a prior's estimates (gpu/predict/speed_prior.hpp) stand for both
//     rates, with its interval: what was probed of both outranks it, part by part.
//   LRN-9  A node is a name on a machine: what was learned of other hardware under its name is not
//     held against it, nor taken for its own. It begins anew, which is said once; of parts that it
//     was not measured at yet what machines of its kind take is expected, no wider than those
//     differ, before its probes are asked. Times of an earlier release, which tell of no machine,
//     are of the one that bears the name. What may be the machine that it was is that one: it does
//     not say all of itself each time (MCP-3).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/predict/own_past_policy.hpp"
#include "gpu/predict/online_policy.hpp"
#include "gpu/predict/roofline.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"
#include "io/perf/hw_profile.hpp"
#include "io/perf/machine_print.hpp"
#include "io/perf/part_times.hpp"
#include "messages/step_parts.hpp"

namespace troupe::predict {

/// No step of that rank was learned from yet.
inline constexpr error_kind<uint32_t, int64_t> rank_not_seen{
    "rank_not_seen", errc::not_found, "nothing is known of rank {}, of {} ranks in all",
    "ask again once the job has made some more steps"};

/// Nothing was ever learned of it, or it was forgotten.
inline constexpr error_kind<std::string_view> learned_node_unknown{
    "learned_node_unknown", errc::not_found, "nothing is known of a node {}"};

struct learning_options {
  size_t window = 8;  ///< steps whose median is one sample
  size_t first_steps = 3;
  size_t known_by = 4;          ///< windows of a rank's part, before it is doubted
  size_t doubted_windows = 32;  ///< running, of which nothing is learned
  size_t suspect_windows = 2;   ///< running, that make a suspect
  size_t suspects_kept = 64;
  size_t judged_kept = 256;  ///< windows of the whole step (LRN-7)
};

/// A rank's part of a step.
struct learned_rank {
  uint32_t rank = 0;
  std::string node;
  uint32_t layers = 0, threads = 0;
  std::vector<train::step_part> parts;  ///< settled
};

/// A step, as far as it was told.
struct learned_step {
  uint32_t epoch = 0;
  bool usual = true;                             ///< it is as others of its kind are
  fbs::StepOddity kind = fbs::StepOddity::none;  ///< one that has peers, if usual
  double took_ms = 0;
  uint32_t replicas = 1;
  std::vector<learned_rank> ranks;
};

/// A part of a rank's step takes longer than was expected of it, or does no more.
struct suspected_part {
  uint32_t rank = 0;
  std::string node;
  train::pipeline_op part = train::pipeline_op::count;
  double seen_ms = 0;
  gpu::predict::step_estimate expected;
  bool gone = false;
  bool by_probes = false;  ///< not by what was learned (probed_limit_policy.hpp)
  bool by_past = false;    ///< by what earlier runs took alone (own_past_policy.hpp)
};

/// What the parts of a rank there were expected to take and took, of those whose windows are full:
/// where the node has several ranks, their mean.
struct compared_node {
  std::string node;
  double expected_ms = 0, seen_ms = 0;
};

/// How far off expectations of the step were, as shares of what was expected.
struct expectation_errors {
  size_t judged = 0;
  double median = 0, worst = 0;  ///< 0 where none was judged
};

/// What is asked: a rank as it is, or with other layers or threads, or on another node.
struct asked_rank {
  uint32_t rank = 0;
  std::string node = {};             ///< empty: where it is
  uint32_t layers = 0, threads = 0;  ///< 0: as it has
};

/// What is expected of a part; of the step, of `count`.
struct expected_part {
  train::pipeline_op part = train::pipeline_op::count;
  gpu::predict::step_estimate time;
  bool by_probes = false;  ///< no such step was measured there (LRN-8)
  bool by_kind = false;    ///< the same, by machines like this one (LRN-9)
  bool by_prior = false;   ///< the same, by a prior: it was not probed, or others were not
};

/// What a node's machine was probed to do, and what its ranks' parts take by that alone: busy_ms.
struct probed_node {
  std::string node;
  io::perf::hw_profile profile;
  std::vector<learned_rank> ranks;
  std::string host = {};  ///< of nodes that share a machine the same; empty: not known
  std::optional<gpu::predict::machine_speed> prior = {};  ///< what a prior says of it
};

struct expected_rank {
  std::string node;
  std::vector<expected_part> parts;  ///< in the order of the table of operations
  std::optional<gpu::predict::step_estimate> step;
};

/// What an expectation is made of.
struct explained_part {
  train::pipeline_op part = train::pipeline_op::count;
  gpu::predict::step_factors factors;
  /// What its machine's probes alone let expect, whatever was measured; nothing: not known.
  std::optional<gpu::predict::step_estimate> probed = {};
};

struct explained_rank {
  std::string node;
  std::vector<explained_part> parts;  ///< in the order of the table of operations
};

/// The name of a feature of step_estimate::outside.
std::string_view feature_name(size_t feature);

class learning_policy {
 public:
  learning_policy() = default;
  /// Of a settled job.
  /// `model`: what the job's model is.
  explicit learning_policy(const config::job& job, learning_options options = {},
                           const model_config& model = {});

  void hear(const learned_step& step);
  /// What has become a suspect or ceased to be one since this was asked last (LRN-6).
  std::vector<suspected_part> take_suspects();

  /// What the node's machine is, before its ranks make steps: once in each epoch. What the machine
  /// is that the name was known for, where that is another one and this one was never told of
  /// (LRN-9).
  std::optional<io::perf::machine_print> hear_machine(const std::string& node,
                                                      const io::perf::machine_print& says);
  /// Before the node's ranks make steps: once in each epoch. It counts where a model could know the
  /// node, too.
  void hear_probes(const probed_node& node);
  /// By the last fit, as if the rank were on a node of such a machine, which no steps were made on
  /// (LRN-8). `prior`: what a prior says of it. Errors: rank_not_seen.
  result<expected_rank> ask_on(const io::perf::hw_profile& machine, asked_rank question,
                               std::optional<gpu::predict::machine_speed> prior = {});

  /// What earlier jobs have kept: each time is one sample. What is not of such parts and numbers as
  /// this release has is left out: how many.
  size_t recall(std::span<const io::perf::part_time> times);
  /// What was learned of steps since the news were dropped last: of each part, configuration and
  /// node one time (LRN-4).
  std::vector<io::perf::part_time> news() const;
  /// They are kept by now.
  void drop_news() { news_.clear(); }
  /// What was learned of the node, or recalled, on whatever machine: it counts as one that was
  /// never told of. False where it is one already.
  bool forget(const std::string& node);
  bool has_news() const noexcept { return !news_.empty(); }

  /// Whether a model was told so much that another fit of it is worth its time.
  bool fit_due() const;
  /// Fits one of these models: less than a second of one core. Once `over` says true it is cut
  /// short, and due as before.
  void fit(const std::function<bool()>& over = {});

  /// By the last fit. Errors: rank_not_seen.
  result<expected_rank> ask(const asked_rank& question) const;
  /// The same of what the answer is made of. Errors: rank_not_seen.
  result<explained_rank> explain(const asked_rank& question) const;

  /// Of the windows that the step heard last has filled, where something was expected of them.
  std::vector<compared_node> compared() const;
  /// LRN-7.
  expectation_errors errors() const;

  uint64_t steps() const noexcept { return steps_; }
  uint64_t odd_steps() const noexcept { return odd_steps_; }
  uint64_t samples() const noexcept { return samples_; }
  uint64_t recalled() const noexcept { return recalled_; }
  uint64_t refused() const noexcept { return refused_; }
  uint64_t fits() const noexcept { return fits_; }
  size_t parts() const noexcept { return models_.size(); }
  /// Those that it knows times of; not the one of all together.
  size_t nodes() const noexcept;
  size_t suspects() const noexcept { return suspected_.size() + past_.suspects(); }
  size_t most_configurations() const noexcept;

 private:
  /// What a rank was when it was told of last.
  struct place {
    std::string node;
    uint32_t layers = 0, threads = 0;
    bool operator==(const place&) const = default;
  };
  /// Of a rank's part. There are a dozen for each rank of a job, so it is small.
  struct window {
    train::pipeline_op part{};
    uint32_t steps = 0;    ///< that it holds
    uint32_t learned = 0;  ///< windows, of them
    uint32_t longer = 0;   ///< windows running that took longer than expected
    uint64_t work = 0;
  };
  /// Of a rank.
  struct rank_windows {
    std::vector<window> parts;  ///< in the order of the table of operations
    std::vector<float> ms;      ///< of each of these room for a whole window
  };
  using key = std::pair<uint32_t, train::pipeline_op>;  ///< rank, part
  /// LRN-9. Without a name all nodes together, on what they are.
  struct known_node {
    std::string name;
    io::perf::machine_print machine;
    auto operator<=>(const known_node&) const = default;
  };

  /// On the machine that it has now; not told of, on that of the newest times of a file.
  known_node node_now(const std::string& name) const;
  /// Which of the machines that the name was known for it is, though it says a little less of
  /// itself now, or more (MCP-3); another one as it says.
  io::perf::machine_print known_as(const std::string& node,
                                   const io::perf::machine_print& says) const;
  /// From now on the name stands for this machine. Times that tell of no machine are its own, and
  /// those of one of its kind whose GPUs told no UUIDs.
  void name_machine(const std::string& name, const io::perf::machine_print& is);
  /// What machines a step is made on by now.
  void note_machines();
  /// What others of the same kind take of a part that the node was not measured at (LRN-9).
  std::optional<gpu::predict::step_estimate> by_kind(
      const gpu::predict::online_policy& model,
      const gpu::predict::step_configuration& configuration, const std::string& node) const;
  /// What is known best of a node's part; nothing: not known. Errors: bad_step_sample.
  result<std::optional<expected_part>> expected_of(
      train::pipeline_op part, const gpu::predict::online_policy& model,
      const gpu::predict::step_configuration& configuration, const std::string& node) const;

  /// What a machine does of a part, in whatever unit; nothing: no probe says it (LRN-8).
  std::optional<double> rate_of(const std::string& node, train::pipeline_op part) const;
  /// What a node takes for what another one does, by their machines.
  struct carried_by {
    double by = 1;
    double half = gpu::predict::machines_differ;  ///< of its logarithm, either way
    bool by_prior = false;
  };
  /// By their probes; where these do not say it, by a prior. Nothing: neither does.
  std::optional<carried_by> carries(const std::string& from, const std::string& to,
                                    train::pipeline_op part) const;
  /// Times as long as on the nodes that the model has seen; nothing where it has seen this one, or
  /// that is not known.
  std::optional<carried_by> times_as_long(const std::string& node, train::pipeline_op part) const;
  static gpu::predict::step_estimate carried(gpu::predict::step_estimate e,
                                             const std::optional<carried_by>& by);
  /// By a rank's roofline; nothing where there is none of the part, or the place differs in what
  /// neither a probe nor a prior says.
  std::optional<expected_part> by_roofline(const learned_rank& planned,
                                           const train::step_part& part, const place& at) const;
  /// The rank whose roofline its parts go by: its own, or, where its machine was not probed, that
  /// of the one whose layers are nearest to its own in number. Null: nobody was probed.
  const learned_rank* roofline_of(uint32_t rank) const;
  /// By the part's model, where there is one.
  std::optional<expected_part> learned_of(const train::step_part& part, const place& at) const;
  /// By the probes of the machine there, whatever was learned.
  std::optional<gpu::predict::step_estimate> probed_of(uint32_t rank, train::pipeline_op part,
                                                       const place& at) const;
  /// Of the rank's parts that nothing is learned of yet, behind those that are.
  void add_by_probes(uint32_t rank, const place& at, expected_rank& out) const;

  void begin_epoch(const learned_step& step);
  /// Whether most steps of the epoch are of its kind.
  bool is_of_most(const learned_step& step);
  void drop_windows();
  void drop_windows_of(uint32_t rank);
  void hear_rank(const learned_rank& rank);
  void add(const key& of, const place& at, uint64_t work, double ms);
  /// Of the kind that most steps are of: the part's window, and the room for its steps.
  std::pair<window&, std::span<float>> window_of(const key& of);
  /// LRN-7.
  void compare(const key& of, const place& at, double ms,
               const gpu::predict::step_estimate& expected);
  /// LRN-5: nothing is to be learned of the median.
  bool doubts(const key& of, const place& at, window& w, double ms,
              const std::optional<gpu::predict::step_estimate>& expected);
  /// LRN-6.
  void suspect(const key& of, const place& at, const window& w, double ms,
               const gpu::predict::step_estimate& expected);
  /// Of one that is none nothing is told.
  void end_suspect(key of);
  /// What is expected of the part there by the last fit; nothing: not known.
  std::optional<gpu::predict::step_estimate> estimate_of(train::pipeline_op part, const place& at,
                                                         uint64_t work) const;
  /// What the question is about. Errors: rank_not_seen.
  result<place> place_asked(const asked_rank& question) const;
  /// Of each part of the rank that has a model: the part, the model, the configuration there.
  /// Errors: those of `visit`.
  template <class Visit>
  status each_part(uint32_t rank, const place& at, const Visit& visit) const;
  void learn(const key& of, const place& at, uint64_t work, double ms);
  /// Whether the part's model has taken it.
  bool tell_model(train::pipeline_op part, const known_node& node, std::vector<double> features,
                  double seconds);
  std::vector<double> features_of(const place& at, uint64_t work) const;
  /// Of a rank of this epoch (OPP-1); 0: of all together.
  uint64_t work_sum_of(uint32_t rank) const;
  /// Of a node that was never told of: one that no model knows.
  uint64_t number_of(const std::string& node) const;
  place whole_job() const;

  learning_options options_;
  std::vector<double> shape_;
  uint64_t work_sum_ = 0;  ///< of the job
  rank_grid grid_;         ///< with all replicas
  int64_t ranks_ = 0;
  uint64_t tokens_ = 0;  ///< of a step
  double suspect_share_ = 0;  ///< longer than expected; 0: nothing is doubted
  size_t memory_ = gpu::predict::kept_configurations;  ///< of each part
  uint32_t epoch_ = 0, replicas_ = 0;
  size_t steps_of_epoch_ = 0;
  std::array<size_t, train::peer_kinds> steps_of_kind_{};  ///< of the epoch
  size_t kind_ = 0;                                        ///< that most are of
  std::map<uint32_t, place> places_;
  std::array<std::map<uint32_t, rank_windows>, train::peer_kinds> windows_;  ///< by rank
  std::map<known_node, uint64_t> nodes_;  ///< from 1; none has a number that another one had
  uint64_t last_node_ = 0;
  std::set<uint64_t> recalled_nodes_;                                 ///< numbers
  std::map<std::string, io::perf::machine_print> machines_;           ///< by name, as told
  std::map<std::string, io::perf::machine_print> recalled_machines_;  ///< of the newest times
  bool machines_changed_ = true;                          ///< since what all together are was noted
  std::map<std::string, io::perf::hw_profile> profiles_;  ///< by node
  std::map<std::string, gpu::predict::machine_speed> priors_;  ///< by node, of those in profiles_
  std::map<uint32_t, learned_rank> planned_;              ///< as they were probed
  config::compute_dtype dtype_ = config::compute_dtype::f32;
  std::vector<suspected_part> told_;
  std::set<key> suspected_;
  own_past_policy past_;
  /// Of a node's ranks, sums.
  struct comparison {
    std::set<uint32_t> ranks;
    double expected_ms = 0, seen_ms = 0;
  };
  std::map<std::string, comparison> compared_;
  std::deque<double> errors_;
  std::map<train::pipeline_op, gpu::predict::online_policy> models_;
  /// Of a part, a node, features and the work's sum: logarithms of seconds.
  struct summed_times {
    double logarithms = 0;
    uint64_t count = 0;
  };
  std::map<std::tuple<train::pipeline_op, known_node, std::vector<double>, uint64_t>, summed_times>
      news_;
  uint64_t steps_ = 0, odd_steps_ = 0, samples_ = 0, recalled_ = 0, refused_ = 0, fits_ = 0;
};

}  // namespace troupe::predict
