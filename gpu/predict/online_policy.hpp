// What a section of a step takes, learned while runs are made: by configuration and by node.
//
//   log seconds = log roofline + trunk(configuration) + bend(configuration) + node + noise
//
// The trunk is a line in the logarithms of a configuration's features (a ridge: what of the work's
// roofline is reached, and how that falls with batch, width and depth), the bend what a Gaussian
// process makes of the line's residuals (gaussian_process.hpp), both fitted at once over the means
// of the newest configurations. A node's own factor has a prior of some percent around 1, so that a
// few measurements move it little; it is told apart from its configurations exactly, as one more
// part of the same normal distribution: by configurations that several nodes had, and, more
// weakly, by those that others like it had. Noise is what repeats differ by, and a nugget that the
// likelihood chooses. An interval that follows from such a model alone is too narrow while little
// is known (on vTrain's times it holds for 59 % of rows after ten of them, 71 % after 40): it is
// made as wide as residuals of rows that were left out ask for, and wider, the fewer there are.
//
// One policy knows one section (forward, backward, a transfer); a run has one for each. Who asks
// fits first: nothing is fitted while it is told, and an answer is from the last fit.
//
// Invariants
//   ONL-1  A fit depends on what was told, in its order, and on nothing else: fitted once or often,
//     the same bits.
//   ONL-2  At most as many configurations are kept as it was made for, the newest, and at most
//     `known_nodes`.
//   ONL-3  A sample that is refused changes nothing.
//   ONL-4  An answer knows nothing of what was told after its fit.
//   ONL-5  A fit that is cut short changes nothing: answers are those of the fit before, and the
//     next one is due as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/perf/table.hpp"

namespace troupe::gpu::predict {

/// A fit with more would take longer than a second of a core.
inline constexpr size_t kept_configurations = 512;
inline constexpr size_t known_nodes = 512;

struct process_data;

/// What of a sample or a question is impossible.
inline constexpr error_kind<std::string_view> bad_step_sample{"bad_step_sample", errc::bad_data,
                                                              "a step's sample is invalid: {}"};
inline constexpr error_kind<size_t> too_many_step_nodes{"too_many_step_nodes", errc::no_memory,
                                                        "{} nodes are known already",
                                                        "forget those that have left"};

/// Steps of one configuration: its features, as the policy was told that there are, and a time that
/// the work takes by a rule without learning, up to a factor (1 where there is none).
struct step_configuration {
  std::vector<double> features;
  double roofline_s = 1;
  bool operator==(const step_configuration&) const = default;
};

struct step_estimate {
  double seconds = 0, least_s = 0, most_s = 0;  ///< the interval: 19 of 20
  size_t configurations = 0;                    ///< that it rests on
  /// The first feature that is a tenth of its range and more outside what was learned from.
  std::optional<size_t> outside;
};

/// A node's own share of its times' logarithms: .1 is about 10 % slower.
struct node_effect {
  double mean = 0, deviation = 0;
};

/// What an estimate is made of: a time by a rule, times factors, is its `seconds`, unless that was
/// too far from the rule to be believed.
struct step_factors {
  double rule_s = 0;  ///< the configuration's roofline
  double line = 1;    ///< what is reached of that, by a line in the features' logarithms
  double bend = 1;    ///< what configurations like this one differ from the line by
  double node = 1;    ///< the node's own; 1: it was never seen
  /// Parts of the interval: shares of the time by which it may be off, each by itself 19 of 20.
  double doubt = 0;         ///< how little is known of the configuration and the node
  double noise = 0;         ///< what repeats differ by
  size_t node_samples = 0;  ///< times that the node was measured, and kept
  step_estimate is;
};

class online_policy {
 public:
  /// How each feature is used: as it is, or by its logarithm. No categories. Of configurations it
  /// keeps so many, at least one and at most `kept_configurations`.
  explicit online_policy(std::vector<io::perf::feature_kind> features,
                         size_t kept = kept_configurations);
  ~online_policy();
  online_policy(online_policy&&) noexcept;
  online_policy& operator=(online_policy&&) noexcept;

  /// The median time of some steps that nothing disturbed. Errors: bad_step_sample,
  /// too_many_step_nodes.
  status hear(const step_configuration& configuration, uint64_t node, double seconds);
  /// What is known of the node goes with it.
  void forget(uint64_t node);

  /// Whether so much was told since the last fit that another one is worth its time.
  bool fit_due() const noexcept;
  /// With all that was told. Less than a second of one core for as many configurations as are kept.
  /// True once it is made; false: `over` said true before (ONL-5). It is asked every few
  /// milliseconds, some tens of them apart at most.
  bool fit(const std::function<bool()>& over = {});

  size_t configurations() const noexcept { return known_.size(); }
  size_t nodes() const noexcept { return cells_of_node_.size(); }

  /// Whether the last fit knows times of the node.
  bool has_seen(uint64_t node) const noexcept;

  /// On a node, or on one that was never seen. Nothing before a fit of something. Errors:
  /// bad_step_sample.
  result<std::optional<step_estimate>> ask(const step_configuration& configuration,
                                           uint64_t node) const;
  /// What such an answer is made of. Errors: bad_step_sample.
  result<std::optional<step_factors>> explain(const step_configuration& configuration,
                                              uint64_t node) const;
  /// As of the last fit; the prior of one that was never seen.
  node_effect effect_of(uint64_t node) const;

 private:
  /// Samples of a node in a configuration: logarithms of their times over the roofline.
  struct cell {
    double count = 0, mean = 0, squares = 0;  ///< squares: of differences from the mean
  };
  struct known_configuration {
    step_configuration is;
    std::vector<double> coordinates;  ///< features, by their logarithms where they scale
    std::map<uint64_t, cell> cells;   ///< by node
    uint64_t newest = 0;              ///< the sample
  };
  struct told;
  struct fitted;
  /// A question, in the fit's terms.
  struct asked_place {
    std::vector<double> at;  ///< coordinates
    std::optional<size_t> outside, node;
  };

  asked_place place_of(const step_configuration& configuration, uint64_t node) const;
  status check(const step_configuration& configuration) const;
  std::vector<double> coordinates_of(const step_configuration& configuration) const;
  told weigh(const std::map<uint64_t, size_t>& index) const;
  void place(fitted& f, process_data& data) const;
  std::unique_ptr<const fitted> make_fit(const std::function<bool()>& over) const;
  void drop(size_t configuration);
  void drop_cell(uint64_t node);

  std::vector<io::perf::feature_kind> features_;
  size_t kept_ = kept_configurations;
  std::vector<known_configuration> known_;  ///< in the order of their first samples
  std::map<uint64_t, size_t> cells_of_node_;
  uint64_t samples_ = 0, fresh_ = 0;  ///< told; configurations and nodes that were new
  uint64_t fitted_samples_ = 0, fitted_fresh_ = 0;
  bool forgot_ = false;  ///< since the last fit
  std::unique_ptr<const fitted> fitted_;
};

}  // namespace troupe::gpu::predict
