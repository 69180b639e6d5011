// What of a job's power goes to the disk while it trains, behind its actors' back.
//
//   <output>/power.jsonl   what its pacer decided, a JSON object a line
//                          (actors/power/pacer_journal.hpp); of a job with a budget alone
//   power.textfile         what `troupe power status --prometheus` prints, for node_exporter's
//                          textfile collector; of a job that names one
//
// They are held beside the actors, so that the process's end waits for a disk, not theirs.
#pragma once

#include <functional>
#include <memory>

#include "actors/power/pacer_journal.hpp"
#include "apps/power/journal_file.hpp"
#include "apps/power/textfile.hpp"
#include "io/config/job.hpp"
#include "messages/schemas/control_generated.h"

namespace troupe::apps {

class power_files {
 public:
  power_files() = default;
  explicit power_files(const config::job& job);

  /// For the pacer; empty: no journal is kept.
  power::pacer_journal::sink journal() const;
  /// For the gateway; empty: nobody wants to be shown the cluster.
  std::function<void(fbs::ClusterViewT)> shown() const;

 private:
  std::shared_ptr<power_verb::journal_file> journal_;
  std::shared_ptr<power_verb::textfile> textfile_;
};

}  // namespace troupe::apps
