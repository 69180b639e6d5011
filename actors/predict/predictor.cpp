// Messages to the policy, and its estimates to messages.
#include "actors/predict/predictor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/actor_log.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/base/hw_message.hpp"
#include "actors/base/processes.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/perf/part_times.hpp"
#include "io/perf/summed_lines.hpp"
#include "messages/operations.hpp"
#include "messages/rejection.hpp"
#include "messages/text.hpp"

namespace troupe::predict {

namespace {

/// As long as it is kept: anybody of the cluster may say what nodes are called.
std::string node_name(const flatbuffers::String* said) {
  return text_of(said).substr(0, io::perf::part_name_bytes);
}

learned_step step_in(const fbs::StepTimes& m, uint32_t epoch) {
  learned_step out{epoch, train::has_peers(m.oddity()), m.oddity(), m.took_ms(), m.replicas(), {}};
  if (m.ranks() == nullptr) return out;
  for (const auto* r : *m.ranks())
    out.ranks.push_back(
        {r->rank(), node_name(r->node()), r->layers(), r->threads(), train::parts_of(r->parts())});
  return out;
}

/// PRD-7.
bool is_over(const predictor_state& st) {
  return st.over.stop_requested();
}

/// What its prior says of a machine. PRD-10: a replay has no model, and reads what was said then.
std::optional<gpu::predict::machine_speed> prior_of(predictor_state& st,
                                                    const io::perf::hw_profile& machine) {
  if (!st.has_prior) return std::nullopt;
  const auto here = st.prior ? st.prior->ask(machine) : std::nullopt;
  const auto is = here.value_or(gpu::predict::machine_speed{});
  const auto a_thread = number_as_recorded(is.a_thread), half = number_as_recorded(is.half);
  if (!(a_thread > 0)) return std::nullopt;
  return gpu::predict::machine_speed{a_thread, half};
}

/// What it did since `begin_ns`, a span of its own in traces; what it took, in seconds.
double note_span(predictor_pointer self, uint16_t name, int64_t begin_ns, uint64_t number) {
  work_note w;
  w.name = name;
  w.actor = self->stats().number();
  w.number = number;
  w.begin_ns = begin_ns;
  w.end_ns = now_ns(*self);
  self->runtime().records.note(w);
  return static_cast<double>(w.end_ns - w.begin_ns) / 1e9;
}

/// One model, however many are due: the others come with the next steps; none once the head ends
/// (PRD-7).
void fit(predictor_pointer self) {
  static const auto span_name = work_name("predict-fit");
  auto& st = self->state;
  if (as_recorded(is_over(st)) || !st.policy.fit_due()) return;
  const auto begin_ns = now_ns(*self);
  st.policy.fit([&st] { return is_over(st); });
  st.fit_s = note_span(self, span_name, begin_ns, st.policy.fits());
}

/// Names of work are few: the nodes that come first have counters, and keep them.
const node_counters* counters_of(predictor_state& st, const std::string& node) {
  const auto known = st.counters.find(node);
  if (known != st.counters.end()) return &known->second;
  if (st.counters.size() == counted_nodes) return nullptr;
  const auto name = [&](std::string_view what) {
    return work_name(fmt::format("{} {} ms", printable(node), what));
  };
  return &st.counters.emplace(node, node_counters{name("expected"), name("seen")}).first->second;
}

void note_counters(predictor_pointer self) {
  for (const auto& c : self->state.policy.compared()) {
    const auto* names = counters_of(self->state, c.node);
    if (names == nullptr) continue;
    const auto note = [&, at_ns = now_ns(*self)](uint16_t name, double value) {
      if (name == 0) return;
      self->runtime().records.note(counter_note{name, self->stats().number(), at_ns, value});
    };
    note(names->expected, c.expected_ms);
    note(names->seen, c.seen_ms);
  }
}

void show(predictor_pointer self) {
  const auto& st = self->state;
  publish(self, st.policy.fits() > 0 ? "expecting" : "learning", [&](fbs::PredictorStatusT& s) {
    s.steps = st.policy.steps();
    s.odd_steps = st.policy.odd_steps();
    s.dropped_steps = st.dropped;
    s.samples = st.policy.samples();
    s.refused_samples = st.policy.refused();
    s.parts = static_cast<uint32_t>(st.policy.parts());
    s.configurations = st.policy.most_configurations();
    s.fits = st.policy.fits();
    s.fit_s = st.fit_s;
    s.recalled_samples = st.policy.recalled();
    s.suspects = static_cast<uint32_t>(st.policy.suspects() + st.limits.suspects());
    s.nodes = static_cast<uint32_t>(st.policy.nodes());
    const auto errors = st.policy.errors();
    s.judged_windows = static_cast<uint32_t>(errors.judged);
    s.median_error_percent = errors.judged > 0 ? 100 * errors.median : -1;
    s.worst_error_percent = errors.judged > 0 ? 100 * errors.worst : -1;
    s.store_problem = st.keep_problem.empty() ? st.store_problem : st.keep_problem;
  });
}

// -- what is kept (PRD-6) -------------------------------------------------------------------------

/// PRD-10.
void note_made_of(const predictor_options& options, const io::perf::part_times* kept) {
  if (!options.recorded || detail::current_log == nullptr) return;
  std::vector<std::string> lines;
  if (kept != nullptr)
    for (const auto& t : kept->times) lines.push_back(io::perf::part_time_line(t));
  options.recorded(std::move(lines));
}

void recall(predictor_pointer self, const predictor_options& options) {
  auto& st = self->state;
  const auto kept = st.kept ? st.kept->read() : io::perf::part_times{};
  note_made_of(options, kept ? &*kept : nullptr);
  if (kept) {
    std::vector<std::string> problems;
    if (kept->left_out > 0)
      problems.push_back(fmt::format("{} could not be read", counted(kept->left_out, "line")));
    if (const auto unfit = st.policy.recall(kept->times); unfit > 0)
      problems.push_back(
          fmt::format("{} from another release of the program left out", counted(unfit, "line")));
    if (!problems.empty())
      st.store_problem = fmt::format("of {}: {}", st.kept->name(), fmt::join(problems, ", "));
    return;
  }
  st.store_problem = kept.error().message;
  if (!kept.error().is(io::perf::no_summed_lines) || !st.store_is_usual) return;
  const auto aside = st.kept->put_aside();
  st.store_problem += aside ? fmt::format("; it is {} now", aside->string())
                            : fmt::format("; it stays, since {}", aside.error().message);
}

/// False: it is tried again.
bool keep(predictor_pointer self) {
  auto& st = self->state;
  if (!st.kept || !st.policy.has_news()) return true;
  auto news = st.policy.news();
  for (auto& t : news) t.run = st.run;
  const auto kept = st.kept->add(news);
  if (!kept) {
    st.keep_problem = kept.error().message;
    return false;
  }
  st.policy.drop_news();
  st.keep_problem.clear();
  return true;
}

/// Ever less often: a long run is not to push what others know out of the file.
void keep_now_and_then(predictor_pointer self) {
  auto& st = self->state;
  if (now_ns(*self) < st.keep_ns) return;
  if (keep(self)) st.keep_in_ns *= 2;
  st.keep_ns = now_ns(*self) + st.keep_in_ns;
}

// -- what is heard and asked ----------------------------------------------------------------------

std::unique_ptr<fbs::ExpectedTimeT> to_message(std::string_view part,
                                               const gpu::predict::step_estimate& e) {
  auto out = std::make_unique<fbs::ExpectedTimeT>();
  out->part = part;
  out->mean_ms = 1e3 * e.seconds;
  out->least_ms = 1e3 * e.least_s;
  out->most_ms = 1e3 * e.most_s;
  out->configurations = e.configurations;
  if (e.outside) out->outside = feature_name(*e.outside);
  return out;
}

std::unique_ptr<fbs::ExpectedTimeT> to_message(const expected_part& e) {
  auto out = to_message(train::facts_of(e.part).name, e.time);
  out->by_probes = e.by_probes;
  out->by_kind = e.by_kind;
  out->by_prior = e.by_prior;
  return out;
}

/// LRN-6, PBL-2.
void tell_suspects(predictor_pointer self, const msg<fbs::StepTimes>& step) {
  auto& st = self->state;
  auto suspects = st.policy.take_suspects();
  std::ranges::move(st.limits.take(), std::back_inserter(suspects));
  for (const auto& s : suspects) {
    if (!st.monitor) continue;
    self->send(st.monitor,
               make_msg<fbs::Suspect>(context_of(*self, step.header()), [&](fbs::SuspectT& m) {
                 m.rank = s.rank;
                 m.node = s.node;
                 m.expected = to_message(train::facts_of(s.part).name, s.expected);
                 m.expected->by_probes = s.by_probes;
                 m.by_past = s.by_past;
                 m.seen_ms = s.seen_ms;
                 m.step = step->step();
                 m.gone = s.gone;
               }));
  }
}

/// PRD-9.
bool is_watched(predictor_pointer self) {
  const auto gateway = self->runtime().registry.find("gateway");
  const auto said = gateway ? gateway->values() : fbs::StatusValuesT{};
  return as_recorded(said.gateway && said.gateway->views > 0);
}

/// PRD-5: the run tells of the next step once it hears that this one was taken.
void learn(predictor_pointer self, const msg<fbs::StepTimes>& m) {
  if (!as_recorded(is_told_by(self, "run")))  // PRD-8
    return note_rejection(reject::forbidden, m.type(), "step times of another than the run");
  self->live_in(m.epoch());
  auto& st = self->state;
  const bool is_traced = is_watched(self);
  const bool was_traced = std::exchange(st.is_traced, is_traced);
  auto step = step_in(*m.get(), m.epoch());
  if (is_traced || was_traced) step.usual = false;
  st.policy.hear(step);
  st.limits.hear(step);
  tell_suspects(self, m);
  note_counters(self);
  st.dropped = m->dropped();
  fit(self);
  keep_now_and_then(self);
  show(self);
  self->send(caf::actor_cast<run_actor>(self->current_sender()),
             make_msg<fbs::StepTimesTaken>(context_of(*self, m.header()),
                                           [&](auto& taken) { taken.step = m->step(); }));
}

caf::result<msg<fbs::Prediction>> expect(predictor_pointer self, const msg<fbs::Predict>& m) {
  static const auto span_name = work_name("predict-ask");
  auto& policy = self->state.policy;
  const auto begin_ns = now_ns(*self);
  const asked_rank asked{m->rank(), node_name(m->node()), m->layers(), m->threads()};
  const auto on = [&](const io::perf::hw_profile& machine) {
    return policy.ask_on(machine, asked, prior_of(self->state, machine));
  };
  const auto said = m->profile() != nullptr ? on(profile_in(*m->profile())) : policy.ask(asked);
  note_span(self, span_name, begin_ns, m->rank());
  if (!said) return to_caf(said.error());
  return make_msg<fbs::Prediction>(context_of(*self, m.header()), [&](fbs::PredictionT& out) {
    out.rank = m->rank();
    out.node = said->node;
    for (const auto& e : said->parts) out.parts.push_back(to_message(e));
    if (said->step) out.step = to_message("step", *said->step);
    out.samples = policy.samples();
  });
}

caf::result<msg<fbs::Explanation>> explain(predictor_pointer self, const msg<fbs::Explain>& m) {
  const auto& policy = self->state.policy;
  const auto said = policy.explain({m->rank(), node_name(m->node())});
  if (!said) return to_caf(said.error());
  return make_msg<fbs::Explanation>(context_of(*self, m.header()), [&](fbs::ExplanationT& out) {
    out.rank = m->rank();
    out.node = said->node;
    out.samples = policy.samples();
    for (const auto& e : said->parts) {
      auto& part = *out.parts.emplace_back(std::make_unique<fbs::ExplainedPartT>());
      part.expected = to_message(train::facts_of(e.part).name, e.factors.is);
      part.rule_ms = 1e3 * e.factors.rule_s;
      part.line = e.factors.line;
      part.bend = e.factors.bend;
      part.node = e.factors.node;
      part.node_samples = e.factors.node_samples;
      part.doubt_percent = 100 * e.factors.doubt;
      part.noise_percent = 100 * e.factors.noise;
      if (!e.probed) continue;
      part.probed_ms = 1e3 * e.probed->seconds;
      part.probed_most_ms = 1e3 * e.probed->most_s;
    }
  });
}

/// "node3 is another machine now (Xeon, 8 cores, 32 GiB; was Xeon, 4 cores, 16 GiB): ..."
std::string renewed_text(const std::string& node, const io::perf::machine_print& was,
                         const io::perf::machine_print& is) {
  const auto what = was.kind == is.kind
                        ? fmt::format("has other GPUs now ({})", is.kind)
                        : fmt::format("is another machine now ({}; was {})", is.kind, was.kind);
  return fmt::format("node {} {}: what it takes is learned anew", printable(node), what);
}

/// PRD-8.
void hear_profile(predictor_pointer self, const msg<fbs::HwProfile>& m) {
  if (!as_recorded(is_told_by(self, "coordinator")))
    return note_rejection(reject::forbidden, m.type(),
                          "a machine's profile of another than the coordinator");
  auto& st = self->state;
  probed_node node{
      node_name(m->node()), profile_in(*m.get()), {}, std::string(text_of(m->host())), {}};
  const auto machine = print_in(*m.get());
  const auto was = st.policy.hear_machine(node.node, machine);
  if (was && st.says) st.says(renewed_text(node.node, *was, machine));
  if (st.profiled)
    st.profiled({node.node, text_of(m->host()), m->place(), m->places(), node.profile});
  if (m->fields() == nullptr || m->fields()->size() == 0) return;  // it was not probed
  if (m->ranks() != nullptr)
    for (const auto* r : *m->ranks())
      node.ranks.push_back(
          {r->rank(), node.node, r->layers(), r->threads(), train::parts_of(r->parts())});
  node.prior = prior_of(st, node.profile);
  st.policy.hear_probes(node);
  st.limits.hear_probes(node);
}

/// Of the file first: what cannot be forgotten there would be known again at the next start.
caf::result<msg<fbs::Ack>> forget(predictor_pointer self, const msg<fbs::ForgetNode>& m) {
  auto& st = self->state;
  const auto node = node_name(m->node());
  const auto dropped = node.empty() || !st.kept ? result<size_t>(0) : st.kept->forget(node);
  const auto lines = count_as_recorded(dropped ? *dropped : 0);
  if (!dropped) return to_caf(dropped.error());
  const bool was_known = !node.empty() && st.policy.forget(node);
  if (!was_known && lines == 0) return to_caf(learned_node_unknown(node));
  show(self);
  return make_msg<fbs::Ack>(context_of(*self, m.header()), [&](fbs::AckT& out) {
    out.text = fmt::format("node {} is forgotten, {} of it are gone from the file", node,
                           counted(lines, "line"));
  });
}

}  // namespace

std::filesystem::path store_of(const config::job& job) {
  if (!job.predict.store.empty()) return job.predict.store;
  return std::filesystem::path(job.job.output) / usual_store;
}

uint64_t number_of_run(int64_t began_ns) {
  constexpr int64_t ns_per_us = 1000;
  return static_cast<uint64_t>(std::max<int64_t>(1, began_ns / ns_per_us));
}

predictor_actor::behavior_type predictor(predictor_pointer self, predictor_options options) {
  guard_mailbox(self);
  introduce(self, "predictor", options.epoch);
  auto& st = self->state;
  st.policy = learning_policy(options.job, {}, options.model);
  st.limits = probed_limit_policy(options.job, {}, options.model);
  st.kept = std::move(options.kept);
  if (!st.kept && !options.store.empty()) st.kept = times_in_file(std::move(options.store));
  st.over = std::move(options.over);
  st.monitor = std::move(options.monitor);
  st.profiled = std::move(options.profiled);
  st.says = std::move(options.says);
  st.prior = std::move(options.prior);
  st.has_prior = !options.job.predict.prior.empty();
  st.store_is_usual = options.job.predict.store.empty();
  st.keep_in_ns = ns_of(defaults::predictor_keeps);
  st.keep_ns = now_ns(*self) + st.keep_in_ns;
  st.run = number_of_run(st.keep_ns);
  recall(self, options);
  show(self);
  self->set_exit_handler([self](const caf::exit_msg& m) {
    keep(self);
    self->quit(m.reason);
  });
  return {
      status_handler(self),
      [self](const msg<fbs::StepTimes>& m) { learn(self, m); },
      [self](const msg<fbs::Predict>& m) { return expect(self, m); },
      [self](const msg<fbs::ForgetNode>& m) { return forget(self, m); },
      [self](const msg<fbs::Explain>& m) { return explain(self, m); },
      [self](const msg<fbs::HwProfile>& m) { hear_profile(self, m); },
  };
}

}  // namespace troupe::predict
