// What checks of a job find before it starts: what keeps it from starting, and what a person should
// know all the same.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::train {

/// One thing that keeps a job from starting.
struct finding {
  std::string key;  ///< of the configuration, e.g. "cluster.listen"; empty: of no single one
  error why;        ///< its code is what the process would end with
};

/// All that some checks found.
struct findings {
  std::vector<std::string> remarks;  ///< a sentence each; the job can start
  std::vector<finding> problems;

  /// Notes a failure.
  void refuse(std::string key, error why) { problems.push_back({std::move(key), std::move(why)}); }
  /// Notes the failure of a check, if it is one.
  void note(std::string key, const status& checked) {
    if (!checked) refuse(std::move(key), checked.error());
  }
  void add(findings more) {
    for (auto& r : more.remarks) remarks.push_back(std::move(r));
    for (auto& p : more.problems) problems.push_back(std::move(p));
  }
};

}  // namespace troupe::train
