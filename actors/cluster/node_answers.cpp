// Bytes back at once; a measurement once the host's own thread has made it, one after the other.
#include "actors/cluster/node_answers.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/base/hw_message.hpp"
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

bool is_to_probe(const node_state& st) {
  if (!st.options.probes || !st.job || st.probing.over) return false;
  const auto& job = *st.job;
  // Their rates are the drive's, and their pace is their budget's, from the first moment on.
  if (!job.swap.dir.empty() || job.power.is_budgeted()) return false;
  const bool on_host =
      job.cluster.device == config::device_kind::host ||
      (job.cluster.device == config::device_kind::automatic && st.options.accelerators.empty());
  // A prior goes by what a machine is: that is told, though nothing is measured.
  const bool asks = job.predict.probe != config::probe_depth::off || !job.predict.prior.empty();
  return on_host && job.predict.enabled && asks;
}

/// A span of its own in traces: what the node's ranks waited for.
void note_probing(node_pointer self) {
  static const auto span_name = work_name("probe");
  auto& p = self->state.probing;
  work_note w;
  w.name = span_name;
  w.actor = self->stats().number();
  w.begin_ns = p.begun_ns;
  w.end_ns = now_ns(*self);
  self->runtime().records.note(w);
  p.took_s = static_cast<double>(w.end_ns - w.begin_ns) / 1e9;
}

/// NOD-12.
void end_probing(node_pointer self, const result<io::perf::hw_profile>& found) {
  auto& p = self->state.probing;
  if (std::exchange(p.over, true)) return;
  p.under_way = false;
  p.stop.request_stop();
  note_probing(self);
  if (found)
    p.profile = *found;
  else
    spdlog::warn("this machine is not probed: {}", found.error().message);
  if (!self->state.over) std::exchange(p.then, {})();
}

}  // namespace

void probe_machine(node_pointer self, std::function<void()> then) {
  auto& st = self->state;
  auto& p = st.probing;
  if (p.under_way) return;
  if (!is_to_probe(st)) return then();
  p.under_way = true;
  p.begun_ns = now_ns(*self);
  p.then = std::move(then);
  self->delayed_send(self, defaults::probe_patience, caf::update_atom_v);
  st.options.host->probe({st.job->predict.probe, st.job->job.output}, p.stop.get_token(),
                         [self, queue = st.measured](const result<io::perf::hw_profile>& found) {
                           queue->post([self, found] { end_probing(self, found); });
                         });
}

std::unique_ptr<fbs::HwProfileT> own_profile(const node_state& st) {
  if (!st.probing.profile) return nullptr;
  auto out = std::make_unique<fbs::HwProfileT>();
  out->fields = to_message(*st.probing.profile);
  return out;
}

void hear_measured(node_pointer self) {
  auto& st = self->state;
  st.measured->drain();
  const auto patience_ns = std::chrono::nanoseconds(defaults::probe_patience).count();
  if (st.probing.under_way && now_ns(*self) - st.probing.begun_ns >= patience_ns)
    end_probing(self, error{errc::timeout, fmt::format("that was not done in {} ms",
                                                       defaults::probe_patience.count())});
}

std::string bad_parts(const fbs::CheckupReportT& r) {
  std::string out;
  for (const auto& c : r.checks)
    if (c->verdict == fbs::CheckVerdict::bad)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", c->check, c->part);
  return out;
}

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
