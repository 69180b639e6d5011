// Bytes back at once; a measurement once the host's own thread has made it, one after the other.
#include "actors/cluster/node_answers.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "actors/base/context.hpp"
#include "actors/health/medic.hpp"
#include "messages/errors.hpp"
#include "messages/text.hpp"

namespace troupe::cluster {

namespace {

/// The job does not change while its node lives.
bool asks_the_same(const layers_to_measure& a, const layers_to_measure& b) {
  return std::tie(a.device, a.threads, a.workers) == std::tie(b.device, b.threads, b.workers);
}

void answer_measured(node_pointer self, const result<double>& flops_s);

/// NOD-11: what is asked first.
void measure_first(node_pointer self) {
  auto& st = self->state;
  st.options.host->measure_layers(
      st.measurements.front().of, [self, queue = st.measured](const result<double>& flops_s) {
        queue->post([self, flops_s] { answer_measured(self, flops_s); });
      });
}

/// NOD-11.
void answer_measured(node_pointer self, const result<double>& flops_s) {
  auto& all = self->state.measurements;
  const auto of = all.front().of;
  for (auto& asked : std::exchange(all, {}))
    if (!asks_the_same(asked.of, of))
      all.push_back(std::move(asked));
    else if (flops_s)
      asked.promise.deliver(make_msg<fbs::LayersMeasured>(context_of(*self, asked.cause),
                                                          [&](auto& l) { l.flops_s = *flops_s; }));
    else
      asked.promise.deliver(to_caf(flops_s.error()));
  if (!all.empty()) measure_first(self);
}

}  // namespace

msg<fbs::PairEcho> echo(node_pointer self, const msg<fbs::PairProbe>& m) {
  return make_msg<fbs::PairEcho>(context_of(*self, m.header()), [&](fbs::PairEchoT& e) {
    const auto* bytes = m->bytes();
    if (bytes != nullptr)
      e.bytes.assign(bytes->begin(),
                     bytes->begin() + std::min<size_t>(bytes->size(), health::pair_bytes));
  });
}

caf::result<msg<fbs::LayersMeasured>> measure_layers(node_pointer self,
                                                     const msg<fbs::MeasureLayers>& m) {
  auto& st = self->state;
  auto promise = self->make_response_promise<msg<fbs::LayersMeasured>>();
  st.measurements.push_back({promise,
                             m.header(),
                             {st.job, text_of(m->device()), static_cast<int>(m->threads()),
                              static_cast<int>(m->workers())}});
  if (st.measurements.size() == 1) measure_first(self);
  return promise;
}

}  // namespace troupe::cluster
