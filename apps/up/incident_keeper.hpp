// What the reporter has heard of the incident that goes on, and its folder, which is written when
// something is decided, when it is over, and when a black box of it has come later.
//
// Invariants
//   IKP-1  Evidence and end may come in either order: the folder has both.
//   IKP-2  What cannot be written ends nothing, and is told once an incident.
//   IKP-3  Where an incident's number has a folder already, it is kept under the next one that has
//     none: a head that was deposed, and lives, counts on beside the one that acts.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/report/incident_doc.hpp"
#include "apps/up/incident_folders.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/control_generated.h"

namespace troupe::apps {

class incident_keeper {
 public:
  using wall_clock = std::chrono::system_clock;

  incident_keeper(std::filesystem::path output, std::string job)
      : output_(std::move(output)), job_(std::move(job)), folders_(output_) {}

  /// What is done about a fault is decided. The error is what is to be told (IKP-2), and so below.
  status decided(const msg<fbs::Evidence>& m, wall_clock::time_point now);

  /// It is over.
  status over(const fbs::IncidentT& fault, wall_clock::time_point now);

  /// Writes it again where a black box has come since; for a while after its end (`over_for`).
  status look_again(wall_clock::time_point now);

  /// The folder of that incident, of the newest or of the one before it, which may end later; in
  /// the output; empty: it has none.
  std::string folder_of(uint64_t number) const;
  /// Under which number that incident is kept: its own, or another (IKP-3).
  uint64_t kept_as(uint64_t number) const;

 private:
  bool begin(const fbs::IncidentT& fault, wall_clock::time_point now);
  status write();
  result<std::string> write_as(uint64_t number);

  std::filesystem::path output_;
  std::string job_;
  incident_folders folders_;
  std::optional<report::incident_doc> doc_;     ///< the newest
  std::string waits_text_, waits_dot_;          ///< of it
  std::string folder_;                          ///< its; empty: not written yet
  std::optional<wall_clock::time_point> over_;  ///< black boxes are still looked for
  uint64_t kept_as_ = 0;                        ///< the number of its folder
  struct {
    uint64_t number = 0, kept_as = 0;
    std::string folder = {};
  } before_;                                    ///< the incident before it
  uint64_t told_ = 0;                           ///< of which incident a failure was told
};

}  // namespace troupe::apps
