// Bytes back at once; a measurement once the host's own thread has made it.
#include "actors/cluster/node_answers.hpp"

#include <algorithm>
#include <utility>

#include "actors/base/context.hpp"
#include "actors/health/medic.hpp"
#include "messages/errors.hpp"
#include "messages/text.hpp"

namespace troupe::cluster {

namespace {

void answer_measured(node_pointer self, const result<double>& flops_s) {
  for (auto& asked : std::exchange(self->state.measurements, {}))
    if (flops_s)
      asked.promise.deliver(make_msg<fbs::LayersMeasured>(context_of(*self, asked.cause),
                                                          [&](auto& l) { l.flops_s = *flops_s; }));
    else
      asked.promise.deliver(to_caf(flops_s.error()));
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
  st.measurements.push_back({promise, m.header()});
  if (st.measurements.size() > 1) return promise;
  st.options.host->measure_layers(
      {st.job, text_of(m->device()), static_cast<int>(m->threads()),
       static_cast<int>(m->workers())},
      [self, queue = st.measured](const result<double>& flops_s) {
        queue->post([self, flops_s] { answer_measured(self, flops_s); });
      });
  return promise;
}

}  // namespace troupe::cluster
