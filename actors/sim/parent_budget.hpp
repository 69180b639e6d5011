// A power budget above a simulated job: the real budget actor on a machine of its own, a record
// that outlives it, a second child, and what befalls them.
//
// Why: a job that is granted watts depends on a process that dies, stands still and comes back, and
// on answers that are lost or late. The second child, the neighbour, is there so that there is
// something to share: it asks for more and for less, and keeps leases as any child does.
//
// The job's least steps fit into its static share, and that is its floor: whatever befalls the
// budget, the job makes steps again.
//
// Invariants
//   PBG-1  A next life of the budget knows what the one before has on the disk, and no more; it is
//     of a later epoch.
//   PBG-2  Without simulation_options::power_parent_w nothing is there, and no random number drawn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/job/spawn_record.hpp"
#include "actors/power/budget.hpp"
#include "actors/power/pacer.hpp"
#include "actors/sim/environment.hpp"
#include "actors/sim/faults.hpp"
#include "actors/sim/hold_watch.hpp"
#include "actors/sim/parent_watch.hpp"
#include "io/base/result.hpp"

namespace troupe::sim {

struct simulation_options;

/// The other child of the budget.
struct power_neighbour {
  power::lease_policy lease;
  rng chance;
  int64_t ceiling_mw = 0;
  int64_t wish_mw = 0;
  int64_t held_mw = 0;  ///< by its actuator
  int lies = 0;  ///< for how many reasons it draws what it wishes, whatever its cap is
  int lates = 0;  ///< the same, its actuator goes on with what it had
  bool braked = false;  ///< all its work is held

  int64_t drawn_mw() const { return lies > 0 ? wish_mw : braked ? 0 : std::min(wish_mw, held_mw); }
};

class parent_budget {
 public:
  /// `first`: of terms_of(). `place` in the world is the budget's, the next one its neighbour's.
  /// `log` takes lines for a person.
  parent_budget(world& where, environment& room, power::budget_options first, int place,
                std::function<void(const std::string&)> log);
  parent_budget(const parent_budget&) = delete;
  parent_budget& operator=(const parent_budget&) = delete;

  /// What the budget is, in its first life; of 0 W: there is none. Errors: bad_config, where the
  /// job could not go on with its static share.
  static result<power::budget_options> terms_of(const simulation_options& options);
  /// How many places of the world it needs, behind those of the job.
  static int places_of(const simulation_options& options);

  /// The pacer of a head that begins, under the budget where there is one.
  pacer_actor spawn_pacer(power::pacer_options options, train::spawn_record made_of);

  bool any() const { return first_.budget_mw > 0; }
  /// Whether that befalls the budget or its children, not the job.
  bool takes(fault_kind kind) const {
    return any() && (is_of_parent(kind) || kind == fault_kind::budget_cut);
  }
  /// Something has befallen the job that is none of its power budget's.
  void befell_job() { holds_.befell(); }
  /// What was done, for a person; none: there was nothing that it could befall.
  std::optional<std::string> befall(const fault& f);

  /// What is violated; none: nothing is. At any time, and by a message that has come.
  std::optional<std::string> look();
  std::optional<std::string> see(const any_msg& m, const actor_stats& receiver);

 private:
  class disk_record;
  enum class loss : uint8_t { none, lost, late };
  /// Of answers to one child.
  struct doomed_answer {
    loss how = loss::none;
    int64_t late_ns = 0;
  };

  void begin();
  std::optional<std::string> speaker(const caf::strong_actor_ptr& who) const;
  int64_t job_in_force_mw();
  int64_t promised_mw() const;
  std::optional<int64_t> neighbour_counts_mw() const;
  int64_t detain(int from, int to, const any_msg& m);
  bool runs() const;
  std::optional<std::string> lose(const fault& f);
  std::optional<std::string> freeze(const fault& f);
  std::optional<std::string> doom(const fault& f);
  std::optional<std::string> lie(const fault& f);
  std::optional<std::string> delay(const fault& f);
  static bool is_of_job(const fault& f);
  std::optional<std::string> stick(const fault& f);
  std::optional<std::string> brake(const fault& f);
  void hold_work(bool on);
  std::optional<std::string> cut(const fault& f);

  world& where_;
  environment& room_;
  std::function<void(const std::string&)> log_;
  power::budget_options first_;
  int place_;
  parent_watch watch_;
  hold_watch holds_;

  std::shared_ptr<std::string> disk_ = std::make_shared<std::string>();
  std::shared_ptr<disk_record> record_;
  budget_actor actor_;
  uint64_t lives_ = 0;
  power::budget_pointer budget_ = nullptr;  ///< while its actor lives
  int64_t cap_mw_ = 0;  ///< that there is for its children together, as of its last word

  uint64_t heads_ = 0;
  power::pacer_pointer pacer_ = nullptr;  ///< the same
  int64_t job_mw_ = 0;                    ///< in force, as of its last word
  std::shared_ptr<power_neighbour> neighbour_;
  doomed_answer to_job_, to_neighbour_;
  int brakes_ = 0;  ///< for how many reasons a person holds all work
};

}  // namespace troupe::sim
