// A job's policy with all that it has answered so far, for tests.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/train/job_policy.hpp"
#include "io/config/load.hpp"

namespace troupe::train::test {

constexpr int64_t job_second_ns = 1'000'000'000;

/// Four steps, a checkpoint after each second one.
inline job_plan planned_job(const std::string& checkpoint = "", const std::string& train = "") {
  auto job = config::parse(
      "[job]\noutput = \"out\"\n[model]\nlayers = 1\nheads = 1\nhidden = 8\nvocab = 300\n"
      "[data]\npath = \"x\"\nvalidation_fraction = 0.1\n[train]\nsteps = 4\nbatch = 2\nseq_len = "
      "8\n" +
          train + "[checkpoint]\ndir = \"/first\"\nevery = 2\n" +
          (checkpoint.find("export_model") == std::string::npos ? "export_model = false\n" : "") +
          checkpoint + "\n[recovery]\nenabled = false\n",
      "job");
  REQUIRE_MESSAGE(job, (job ? "" : render(job.error())));
  job_plan out;
  out.job = *job;
  return out;
}

/// The same, which goes on after a fault.
inline job_plan recovering_job(const std::string& checkpoint = "", int64_t steps = 4) {
  auto plan = planned_job(checkpoint);
  plan.job.train.steps = steps;
  plan.job.recovery.enabled = true;
  return plan;
}

/// The same with two replicas, a node for each.
inline job_plan job_of_two_replicas(const std::string& checkpoint = "", int64_t steps = 9) {
  auto plan = recovering_job(checkpoint, steps);
  auto& job = plan.job;
  job.train.micro_batch = 1;
  job.parallel.data = job.cluster.nodes = 2;
  job.cluster.node = {{"n0", "localhost", 1}, {"n1", "localhost", 1}};
  for (int rank = 0; rank < 2; ++rank)
    plan.ranks.push_back({{job.grid(), rank}, rank, {0, 1}});
  plan.micro_batches = job.micro_batches();
  return plan;
}

inline std::string folder_of(uint64_t step, const std::string& tier = "/first") {
  return fmt::format("{}/step-{:08}", tier, step);
}

struct job_harness {
  job_policy policy;
  std::vector<job_command> last;  ///< what the last event was answered with
  std::map<uint64_t, std::string> answers;
  std::vector<std::string> said, warned;
  std::map<uint64_t, std::string> saving;  ///< step to folder, of what has not ended
  std::optional<error> end;
  uint64_t last_request = 0;
  int64_t now_ns = 0;
  int64_t waits_until_ns = 0;  ///< as it asked last

  explicit job_harness(job_plan plan = planned_job(),
                       const std::optional<checkpoint::resume_point>& resume = {},
                       const std::string& second = "")
      : policy(std::move(plan), 7, resume, second) {}

  void hear(const job_event& event) {
    now_ns += job_second_ns;
    const bool late = end.has_value();
    last = policy.on(event, now_ns);
    for (const auto& c : last) {
      // JOB-3, JOB-7: files are looked after, nothing else goes on.
      if (late)
        CHECK((std::holds_alternative<todo::abandon>(c) || std::holds_alternative<todo::copy>(c) ||
               std::holds_alternative<todo::answer>(c)));
      note(c);
    }
  }

  template <class Command>
  const Command* find() const {
    for (const auto& c : last)
      if (const auto* found = std::get_if<Command>(&c)) return found;
    return nullptr;
  }

  /// What it waits for is over.
  void wait() {
    now_ns = std::max(now_ns, waits_until_ns);
    hear(heard::tick{});
  }

  /// Says it as a person; the answer, empty while there is none.
  template <class Event>
  std::string person(Event event) {
    event.request = ++last_request;
    hear(event);
    return answers.contains(event.request) ? answers[event.request] : "";
  }

  /// Each node in the place that the plan for so many replicas gives it.
  heard::admitted admitted(uint32_t replicas = 0) const {
    heard::admitted out{{}, replicas};
    const auto plan = policy.plan_with(replicas);
    REQUIRE(plan);
    for (const auto& n : plan->job.cluster.node) out.nodes.push_back(n.name);
    return out;
  }

  /// The start's next phase.
  void pass() {
    REQUIRE(find<todo::ask>());
    heard::phase_done done{find<todo::ask>()->phase};
    done.folder = "/first";
    done.validation_windows = 3;
    if (done.phase == start_phase::choose_checkpoint)
      done.chosen = {folder_of(2), 2, {}, {2, 32, 1.5, ""}};
    hear(done);
  }

  /// To the first step, or to the pause before it.
  void start() {
    hear(admitted());
    while (find<todo::ask>() != nullptr) pass();
  }

  void step(double loss = 10) { hear(heard::step_done{loss, 2, 1.0, 40, 0}); }

  void commit(uint64_t step) {
    hear(heard::shards_saved{step, 100});
    const auto* order = find<todo::commit>();
    REQUIRE(order);
    const auto tier = std::filesystem::path(order->folder).parent_path().string();
    saving.erase(step);
    hear(heard::committed{step, folder_of(step, tier)});
  }

  void lose_save(uint64_t step, const std::string& why = "no space left on device") {
    saving.erase(step);
    hear(heard::save_failed{step, {errc::io, why}});
  }

 private:
  void note(const job_command& c) {
    if (const auto* a = std::get_if<todo::answer>(&c)) {
      CHECK_FALSE(answers.contains(a->request));  // JOB-5
      answers[a->request] = a->said ? a->said->text : "refused: " + a->said.error().message;
    }
    if (const auto* s = std::get_if<todo::say>(&c)) (s->warning ? warned : said).push_back(s->text);
    if (const auto* s = std::get_if<todo::save>(&c)) {
      CHECK(s->step == policy.step());  // JOB-7
      CHECK_FALSE(saving.contains(s->step));
      saving[s->step] = s->folder;
    }
    if (const auto* w = std::get_if<todo::wait>(&c)) waits_until_ns = now_ns + w->ns;
    if (const auto* a = std::get_if<todo::abandon>(&c)) saving.erase(a->step);
    if (const auto* e = std::get_if<todo::end>(&c)) {
      CHECK_FALSE(end);  // JOB-3
      end = e->why;
    }
  }
};

/// Of one that has trained `steps` steps and committed each checkpoint that was due.
inline job_harness trained(uint64_t steps, const std::string& checkpoint = "",
                    const std::string& second = "") {
  job_harness job(planned_job(checkpoint), {}, second);
  job.start();
  for (uint64_t step = 1; step <= steps; ++step) {
    job.step();
    if (job.saving.contains(step) && step < 4) job.commit(step);
  }
  return job;
}

inline bool mentions(const std::vector<std::string>& sentences, const std::string& what) {
  for (const auto& s : sentences)
    if (s.find(what) != std::string::npos) return true;
  return false;
}

}  // namespace troupe::train::test
