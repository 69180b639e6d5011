// Which node needs more time than it should for which part of a step, since when, and by how much.
//
// Why: stragglers are found by what a rank computes in all, held against its peers
// (straggler_policy.hpp). That neither says what has become slow, nor finds anything where a stage
// is of one rank and the machines are unlike, nor parts a machine that got slower from a job whose
// steps all take longer. Here each part of each rank's step is held against what it was for that
// rank, once that is known, less what has changed for all.
//
//   normal    the median of the part's first `quiet_steps`; it freezes then, or what decays slowly
//             would be learned away
//   now       the median of its last `window` steps
//   the job   of a part the change of all ranks that have it: the median of now / normal, of fewer
//             than five ranks the least, since one of two is half of them, but of none that is
//             noisier than most; where they became quicker by more than machines drift, no less
//   off       (now / normal) / job - 1
//
// Who is `slow` was better. Who is `misconfigured` never was as its peers are: the normal of one of
// three and more ranks of the same stage on the same kind of machine is above the others' median. A
// part that moves bytes between ranks is as slow as either end and what lies between: it is the
// link's, and names no node; the wait for the other end is taken off first (settle_transfers), so
// that who is slow does not make the transfers of all others look slow. Where all ranks change
// together it is the job, and nobody's.
//
// Noise is heavy-tailed (a step in a hundred takes half as long again), so everything is a median
// and a spread a median distance from it; `off` has to exceed both what a person cares about and
// what the noise of that rank makes likely, and three in four of the last steps have to be on its
// side, since two bursts of a few steps also move a median, and beyond what one in four was beyond
// before, since steps of two kinds move it, too. What drifts while normal is learned
// counts as noise. A rank's own noise is known from few steps, and who is taken for noisier than it
// is is found late or never: it counts as that of most ranks of the part, unless it is more than
// chance makes of such an estimate. That is by distances of steps from each other (deviation_of in
// the .cpp), of which as few steps say far more than of those from their median.
//
// Pure.
//
// Invariants
//   BPT-1  What is normal does not change within an epoch once it is known, and no step that was
//     not to be learned from counts.
//   BPT-2  Parts of ranks of other stages, or on other kinds of machines, are not held against each
//     other; only how they have changed is.
//   BPT-3  Where all ranks have changed alike nobody is named.
//   BPT-4  Bounded: of each rank, part and kind of step that there is, some sixty bytes, and
//     `quiet_steps` times of 4 bytes until normal is known, `window` of 8 from then on. So is what
//     is said of all of them, suspected parts first.
//   BPT-5  Steps are held against their like: those without a save, those beside one, and those
//     that one held up have a normal each. What is said is by the kind that most steps of the epoch
//     are of: a job that saves each step has no others. Who gets slow in such a way that all steps
//     become of a kind that had no normal yet is not found: that kind's is made of slow steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/rank_grid.hpp"
#include "messages/step_parts.hpp"

namespace troupe::health {

/// Where a rank is.
struct blamed_place {
  std::string node;
  /// Of the machine; equal where machines are. Empty: not known, and like no other.
  std::string kind;
};

enum class blame_cause : uint8_t {
  slow,           ///< it was better
  misconfigured,  ///< it never was as its peers are
  link,           ///< a transfer
  job,            ///< all together
};
/// "slow", "misconfigured", "link", "job"
std::string_view to_string(blame_cause cause) noexcept;

struct blame {
  blame_cause cause = blame_cause::slow;
  train::pipeline_op part = train::pipeline_op::count;
  int rank = -1;          ///< -1: the job
  std::string node = {};  ///< empty: the link's, or the job's
  uint64_t since_step = 0;
  double normal_ms = 0;  ///< of a step; of `misconfigured` its peers'
  double spread_ms = 0;  ///< within which half of the steps around normal are
  double now_ms = 0;
  double off = 0;  ///< as 0.23: by so much longer, the job's own change taken off
  bool operator==(const blame&) const = default;
};

/// A part of a rank's step beside what is expected of it.
struct seen_part {
  blame is;
  bool suspected = false;  ///< else of `is` neither cause nor since_step says anything
};
struct seen_parts {
  std::vector<seen_part> rows;
  size_t left_out = 0;
};

struct blame_options {
  double suspect = 0.1;     ///< what a person cares about, as a part of normal; 0: nobody is named
  size_t quiet_steps = 32;  ///< that make normal
  size_t window = 12;       ///< that make now, at least 1; judged when a quarter of it is new
  /// Parts shorter than this share of the rank's own step are not judged: nobody gains by them.
  double least_share = 0.02;
  /// Of an epoch: kernels are chosen, memory is touched, groups make their first transfers.
  size_t first_steps = 3;
};

class blame_policy {
 public:
  using parts = std::vector<train::step_part>;
  static constexpr size_t most_parts_seen = 512;

  blame_policy() = default;
  blame_policy(blame_options options, rank_grid grid);

  /// A rank's step; true where all have told of it, and found() may have changed.
  /// `oddity`: of what kind it is (BPT-5); one that has no peers (it validates, is paced) counts
  /// for nothing, whichever rank says so (BPT-1). Transfers include the wait for others.
  bool hear(uint32_t epoch, uint64_t step, uint64_t rank, parts of_rank,
            fbs::StepOddity oddity = fbs::StepOddity::none);

  /// False where nothing can be found now, wherever the ranks are.
  bool may_find() const;

  /// What is found now, whoever is off most first; the job before all. `places` by rank.
  std::vector<blame> found(std::span<const blamed_place> places) const;

  /// A rank's part as it is now, whether it is anything to blame or not. Nothing before normal and
  /// now are known.
  std::optional<blame> look(int rank, train::pipeline_op part) const;

  /// Each part that is long enough to be judged: what is found first, then the others by rank; at
  /// most `most_parts_seen`. Nothing where nobody is to be named. `places` by rank.
  seen_parts look_at_all(std::span<const blamed_place> places) const;

  /// Steps of the epoch that say what is usual so far, and how many make everything known; of those
  /// 0 where nobody is to be named.
  size_t quiet_steps() const noexcept { return seen().learned; }
  size_t quiet_steps_needed() const noexcept;

  uint32_t epoch() const noexcept { return epoch_; }

 private:
  struct sample {
    uint32_t steps = 0;  ///< since the epoch's first one
    float ms = 0;
  };
  /// Of a rank's part. There are a dozen for each rank of a job (BPT-4), so it is small.
  struct series {
    explicit series(int of_rank) : rank(of_rank) {}

    uint64_t work = 0;  ///< of a step; other work begins anew, a transfer's time is as for this
    std::unique_ptr<float[]> first;  ///< until normal is known
    std::unique_ptr<sample[]> last;  ///< from then on
    int rank;
    uint32_t held = 0;  ///< of these
    float normal_ms = 0, spread_ms = 0;
    float deviation = 0;  ///< a part of normal
    float high_ms = 0;    ///< that one in four of those steps was beyond
    uint32_t since = 0;  ///< the epoch's steps to the one since which it is suspected; 0: never was
    bool suspect = false;

    bool known() const noexcept { return normal_ms > 0; }
    /// The last ones, the oldest first.
    std::span<const sample> now() const noexcept { return {last.get(), known() ? held : 0}; }
  };
  /// Of all ranks.
  struct change {
    double ratio = 1;      ///< now over normal
    double deviation = 0;  ///< that a rank's off has, a part of normal, of one like most
    double usual = 0;      ///< that most ranks' times have
  };
  using key = std::pair<train::pipeline_op, int>;  ///< part, rank
  /// What steps of one kind have shown.
  struct known {
    size_t learned = 0;  ///< steps that count
    std::map<train::pipeline_op, std::deque<series>>
        of_ranks;                              ///< by rank, those that have the part
    std::map<train::pipeline_op, change> job;  ///< by part, of the last step
    std::vector<double> normal_ms;             ///< by rank, of all parts that are known
  };

  known& seen() noexcept { return kinds_[shown_]; }
  const known& seen() const noexcept { return kinds_[shown_]; }

  void begin_epoch(uint32_t epoch);
  /// Whether it was judged.
  bool end_step();
  /// Of all that are told of, of the step's kind.
  series& series_of(const key& k);
  void learn(series& s, const train::step_part& part) const;
  void learn_normal(series& s, float ms) const;
  double ratio_of(const series& s) const;
  size_t steps_between_looks() const noexcept;
  /// By part: the change of all.
  std::map<train::pipeline_op, change> job_changes() const;
  double least_off(const series& s, const change& job) const;
  bool counts(const key& k, const series& s) const;
  void judge();
  void judge(const key& k, series& s) const;
  void suspect_since_change(series& s, double middle_ms) const;
  uint64_t since_step_of(const series& s) const noexcept;
  blame blame_of(const key& k, const series& s, double job) const;
  void add_job(std::vector<blame>& out) const;
  void note_change(train::pipeline_op part, const change& of, blame& all) const;
  void add_misconfigured(std::vector<blame>& out, std::span<const blamed_place> places) const;

  blame_options options_;
  rank_grid grid_;
  uint32_t epoch_ = 0;
  size_t steps_ = 0;  ///< of the epoch, whole ones
  uint64_t first_step_ = 0;
  // The step that ranks tell of now.
  uint64_t step_ = 0;
  size_t told_ = 0;
  fbs::StepOddity oddity_ = fbs::StepOddity::none;
  std::vector<parts> now_;  ///< by rank
  std::array<known, train::peer_kinds> kinds_;
  size_t shown_ = 0;  ///< the kind that is told of
};

}  // namespace troupe::health
