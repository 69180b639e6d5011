// Jobs whose state lives on a drive, in as little memory as they can be trained with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
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

/// The same without an end, for which a drive has room whenever it comes.
inline const std::vector<std::string> deep_endless =
    with(deep, with(endless, {"checkpoint.keep=3"}));

/// Settings of its state on a drive, in {job}/swap.
inline std::vector<std::string> swapped(const job_files& job, int64_t host_bytes) {
  return {"swap.dir=" + (job / "swap").string(), "swap.host_bytes=" + std::to_string(host_bytes)};
}

/// What each step of a run computed: its loss and the norm of its gradients, as printed.
using step_numbers = std::vector<std::pair<double, double>>;
inline step_numbers numbers_of(const program& p) {
  step_numbers out;
  for (const auto& step : p.objects("step")) out.emplace_back(step["loss"], step["grad_norm"]);
  return out;
}

/// Runs to the end, which must be good; what it computed.
inline step_numbers numbers(const job_files& job, const std::vector<std::string>& sets) {
  program p(job.up(sets));
  const int code = p.wait();
  INFO(p.err());
  REQUIRE(code == 0);
  return numbers_of(p);
}

/// The same job's numbers in memory, in {job}/memory.
inline step_numbers numbers_in_memory(const job_files& job, const std::vector<std::string>& sets) {
  return numbers(job, with(sets, {"job.output=" + (job / "memory").string()}));
}

/// Whether each step that a run made, some of them more than once, has the numbers of that truth.
inline bool follows(const program& p, const step_numbers& truth) {
  const auto steps = p.objects("step");
  return !steps.empty() && std::all_of(steps.begin(), steps.end(), [&](const auto& s) {
    const auto& [loss, norm] = truth.at(s["step"].template get<size_t>() - 1);
    return s["loss"] == loss && s["grad_norm"] == norm;
  });
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

/// These settings for a model whose state is on a drive, in {job}/swap.
inline std::vector<std::string> at_floor(const job_files& job,
                                         const std::vector<std::string>& sets) {
  const auto all = with(deep, sets);
  return with(all, swapped(job, floor_of(job, all)));
}

}  // namespace troupe::cluster_test
