// Work and counters, by name.
#include "actors/train/run_records.hpp"

#include <cmath>

#include "actors/base/context.hpp"

namespace troupe::train {

void record_step(run_pointer self, uint64_t step) {
  static const auto name = work_name("step");
  const auto& st = self->state;
  work_note w;
  w.name = name;
  w.actor = self->stats().number();
  w.span = w.trace = st.step_span;
  w.number = step;
  w.begin_ns = st.step_started_ns;
  w.end_ns = now_ns(*self);
  self->runtime().records.note(w);
}

void record_measures(run_pointer self, const fbs::StepReportT& r) {
  static const auto loss = work_name("loss"), norm = work_name("gradient norm"),
                    speed = work_name("tokens/s");
  const auto note = [&, at_ns = now_ns(*self)](uint16_t name, double value) {
    self->runtime().records.note(counter_note{name, self->stats().number(), at_ns, value});
  };
  note(loss, r.loss);
  note(norm, r.grad_norm);
  if (std::isfinite(r.tokens_per_s)) note(speed, r.tokens_per_s);
}

}  // namespace troupe::train
