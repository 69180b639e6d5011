// Two replicas under the eyes of a monitor and of a predictor, which hears of their backward.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <caf/actor_cast.hpp>

#include "actors/predict/predictor.hpp"
#include "tests/actors/health/training_replicas.hpp"

namespace troupe::health::test {

struct predicted_replicas : training_replicas {
  predictor_actor predictor;  ///< none: nobody predicts
  uint64_t told = 0;

  predicted_replicas() : training_replicas(false, 10) {
    run->started(caf::actor_cast<caf::weak_actor_ptr>(person.self()), 1);
  }
  void begin_predictor(const std::function<void(config::job&)>& edit = {},
                       std::shared_ptr<predict::kept_times> kept = {}) {
    auto job = train::test::planned_job().job;
    job.parallel.data = 2;
    if (edit) edit(job);
    predict::predictor_options o{std::move(job), monitor_epoch};
    o.monitor = target;
    o.kept = std::move(kept);
    predictor = spawn(predict::predictor, o);
  }
  void tell_times(double first_ms, double second_ms) {
    if (!predictor || !lives(predictor)) return;
    person.tell(predictor, make_msg<fbs::StepTimes>(context_of(epoch), [&](auto& t) {
                  t.step = ++told;
                  t.took_ms = std::max(first_ms, second_ms) + 10;
                  t.replicas = 2;
                  for (uint32_t rank = 0; rank < 2; ++rank) {
                    auto& r = *t.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
                    r.rank = rank;
                    r.node = rank == 0 ? "a" : "b";
                    r.layers = r.threads = 1;
                    auto& p = *r.parts.emplace_back(std::make_unique<fbs::StepPartT>());
                    p.kind = "backward";
                    p.busy_ms = rank == 0 ? first_ms : second_ms;
                    p.work = 64;
                  }
                }));
  }
  void train_at(int seconds, double first_ms, double second_ms) {
    for (int i = 0; i < seconds; ++i) {
      make_steps(1, first_ms, second_ms);
      for (int told_now = 0; told_now < 2; ++told_now) tell_times(first_ms, second_ms);
    }
  }
};

}  // namespace troupe::health::test
