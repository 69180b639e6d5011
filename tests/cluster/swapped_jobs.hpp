// Jobs whose state lives on a drive, in as little memory as they can be trained with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cluster/job_files.hpp"

namespace troupe::cluster_test {

/// Several layers, so that frames are shared.
inline const std::vector<std::string> deep{"cluster.nodes=1",
                                           "parallel.data=1",
                                           "model.layers=6",
                                           "model.recompute=true",
                                           "train.steps=12",
                                           "train.micro_batch=4",
                                           "checkpoint.ring_bytes=16777216"};

/// Settings of its state on a drive, in {job}/swap.
inline std::vector<std::string> swapped(const job_files& job, int64_t host_bytes) {
  return {"swap.dir=" + (job / "swap").string(), "swap.host_bytes=" + std::to_string(host_bytes)};
}

/// The least budget, as `troupe plan` says it.
inline int64_t floor_of(const job_files& job, const std::vector<std::string>& sets) {
  auto words = job.up(with(sets, swapped(job, 1)));
  words.front() = "plan";
  words.insert(words.end(), {"--json", "--no-measure"});
  const auto plan = run(words);
  CHECK(plan.code == 78);
  return nlohmann::json::parse(plan.out)["swap"]["floor_bytes"];
}

}  // namespace troupe::cluster_test
