// Steps, notices and the end, as lines.
#include "apps/up/reporter.hpp"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "apps/data_mark.hpp"
#include "apps/report/log_lines.hpp"
#include "apps/talk.hpp"
#include "apps/up/swap_steps.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"
#include "io/file.hpp"
#include "messages/step_parts.hpp"
#include "messages/text.hpp"

namespace troupe::apps {

namespace {

using reporter_pointer = traced_pointer<reporter_actor, reporter_state>;

report::step_report as_report(const reporter_state& st, const msg<fbs::StepReport>& told) {
  const auto& m = *told;
  report::step_report r;
  r.epoch = told.epoch();
  r.unix_s = unix_now();
  r.tokens = m.tokens();
  r.step = static_cast<int64_t>(m.step());
  r.steps = static_cast<int64_t>(m.steps());
  r.loss = m.loss();
  r.grad_norm = m.grad_norm();
  r.lr = m.lr();
  r.step_ms = m.step_ms();
  if (st.options.peak) r.peak_ratio = share_of_peak(m.flops_per_s(), st.options.peak->flops());
  r.tokens_per_s = m.tokens_per_s();
  r.eta_s = st.spent_ms / static_cast<double>(st.steps_seen) *
            static_cast<double>(m.steps() - m.step()) / 1e3;
  if (m.validation_loss() >= 0) r.validation_loss = m.validation_loss();
  r.checkpoint_wait_ms = m.checkpoint_wait_ms();
  r.saved_step = static_cast<int64_t>(m.saved_step());
  r.replicas = m.replicas();
  for (const auto& p : train::parts_of(m.parts()))
    r.parts.push_back({std::string(train::facts_of(p.kind).name), p.busy_ms, p.waited_ms, p.work});
  r.swap = swap_of(train::parts_of(m.parts()), st.options.job);
  if (r.swap && st.options.swap_limits) {
    const auto& limits = *st.options.swap_limits;
    const auto limit = gpu::limit_of(limits.of(r.swap->passes), limits.rates);
    r.swap->limit_ms = limit.seconds * 1e3;
    r.swap->bound_by = to_string(limit.part);
  }
  r.process_peak_bytes = m.process_peak_bytes();
  if (m.power_w() >= 0)
    r.power = {m.power_w(), m.power_source() == fbs::PowerSource::modelled, m.energy_j()};
  r.pace_percent = static_cast<double>(m.pace_of_1024()) * 100 / 1024;
  r.power_wait_ms = m.power_wait_ms();
  r.slack = text_of(m.slack());
  return r;
}

bool on_terminal(const reporter_state& st) {
  return st.options.job.log.format == config::log_format::automatic && isatty(STDOUT_FILENO);
}

/// Ends the rewriting line, so that what follows starts on a line of its own.
void leave_line(reporter_state& st) {
  if (std::exchange(st.progressing, false)) say_as_is("\r\x1b[K");
  if (!std::exchange(st.rewriting, false)) return;
  static_cast<void>(print("\n"));
}

void show_log(reporter_pointer self) {
  const auto log = self->state.options.log->state();
  publish(self, log.why ? "reporting, without a log" : "reporting", [&](fbs::ReporterStatusT& s) {
    s.log = log.why ? log.why->message : "";
    s.steps_not_logged = log.missing;
  });
}

void write_log(reporter_pointer self, const std::string& line) {
  auto& st = self->state;
  auto& log = *st.options.log;
  log.append(line);
  const auto news = log.news();
  if (!news && !log.state().why) return;
  if (news) {
    leave_line(st);
    say(news->why ? fmt::format("warning: {}; steps go on, and are missing there until it can be "
                                "written",
                                news->why->message)
                  : fmt::format("{} is written again; {} missing in it", log.path(),
                                counted(news->missing, "line is", "lines are")));
  }
  show_log(self);
}

/// Tells a person and the log.
void warn(reporter_pointer self, const std::string& what) {
  leave_line(self->state);
  say("warning: " + what);
  write_log(self, report::warning_json(unix_now(), static_cast<int64_t>(self->state.step), what));
}

/// Once.
void keep_data_mark(reporter_pointer self) {
  auto& options = self->state.options;
  const auto mark = std::exchange(options.data_mark, {});
  if (mark.empty()) return;
  const auto kept =
      io::write_atomic(std::filesystem::path(options.job.job.output) / data_mark_file, mark);
  if (!kept) warn(self, "what the data holds is not kept: " + render(kept.error()));
}

/// What a person sees of the drive as it is, and a reader of the log finds.
void tell_drive(reporter_pointer self, const std::string& what) {
  leave_line(self->state);
  say(what);
  write_log(self, report::warning_json(unix_now(), static_cast<int64_t>(self->state.step), what));
}

/// For `troupe swap show`: what the log says of the step, too.
void show_drive(reporter_pointer self, const report::step_report& r) {
  auto& st = self->state;
  if (!r.swap) return;
  st.written_bytes += r.swap->written_bytes;
  publish_values(self, [&](fbs::ReporterStatusT& s) {
    s.swap = std::make_unique<fbs::SwapStepT>(
        status_of(r, st.written_bytes, st.options.job.swap.rated_tbw));
  });
}

/// What the drive has kept, this step included; and, where that has changed, what a person should
/// know of it.
std::optional<std::string> judge_drive(reporter_state& st, report::step_report& r) {
  if (!r.swap || !st.options.swap_limits) return {};
  auto& moved = *r.swap;
  const auto& limits = *st.options.swap_limits;
  const auto& work = limits.of(moved.passes);
  if (!st.kept_rates) st.kept_rates.emplace(limits.rates);
  const bool changed =
      tells_of_drive(r) &&
      st.kept_rates->stepped(
          work, {static_cast<double>(moved.read_bytes), static_cast<double>(moved.written_bytes),
                 moved.read_ms / 1e3, moved.write_ms / 1e3, r.step_ms / 1e3});
  const auto rates = st.kept_rates->rates();
  const double limit_s = gpu::limit_of(work, rates).seconds;
  if (!st.kept_rates->keeps_all()) moved.limit_kept_ms = limit_s * 1e3;
  return changed ? std::optional(swap::kept_text(limits.rates, rates, limit_s)) : std::nullopt;
}

void show(reporter_state& st, const report::step_report& r) {
  const auto every = st.options.job.log.every;
  const bool shown = every <= 1 || r.step % every == 0 || r.step == r.steps || r.validation_loss;
  if (st.options.job.log.format == config::log_format::json) return;  // RLG-1
  if (on_terminal(st)) {
    static_cast<void>(
        print_unchanged(report::rewriting_line(r, terminal_columns(STDOUT_FILENO, 100))));
    st.rewriting = true;
    if (r.validation_loss) leave_line(st);
  } else if (shown) {
    static_cast<void>(print(report::step_line(r) + "\n"));
  }
}

std::string incidents_beside(const std::string& log) {
  return std::filesystem::path(log).replace_filename("incidents.jsonl").string();
}

/// What keeps an incident from its folder; training goes on.
void tell(reporter_pointer self, const status& kept) {
  if (!kept) warn(self, "what is known of an incident is not kept: " + render(kept.error()));
}

/// A step that is told once more, now that its state is validated (JOB-21).
bool is_validation(const reporter_state& st, const msg<fbs::StepReport>& m) {
  return m->step() == st.step && m.epoch() == st.epoch && m->validation_loss() >= 0;
}

void validated(reporter_pointer self, const msg<fbs::StepReport>& m) {
  auto& st = self->state;
  const auto step = static_cast<int64_t>(m->step());
  write_log(self, report::validation_json(unix_now(), step, m.epoch(), m->validation_loss()));
  if (st.options.job.log.format != config::log_format::json) {
    leave_line(st);
    static_cast<void>(print(report::validation_line(step, m->validation_loss()) + "\n"));
  }
  std::lock_guard lock(st.options.outcome->mutex);
  st.options.outcome->summary.validations.push_back({step, m->validation_loss()});
}

void step(reporter_pointer self, const msg<fbs::StepReport>& m) {
  auto& st = self->state;
  if (is_validation(st, m)) return validated(self, m);
  if (m.epoch() != st.epoch || m->step() != st.step + 1) {
    const auto before = static_cast<int64_t>(m->step()) - 1;
    write_log(self, report::resume_json({unix_now(), before, m.epoch(), "", st.back_by}));
  }
  st.step = m->step();
  st.epoch = m.epoch();
  st.spent_ms += m->step_ms();
  ++st.steps_seen;
  // The first measurement may have been disturbed: a few more, ever fewer.
  if (st.options.peak && std::has_single_bit(st.steps_seen)) st.options.peak->ask();
  auto r = as_report(st, m);
  const auto kept = judge_drive(st, r);
  show_drive(self, r);
  keep_data_mark(self);
  if (st.options.stepped)
    st.options.stepped(m->step(), m->saved_step());  // before anybody reads of it
  write_log(self, report::step_json(r));
  tell(self, st.folders->look_again(incident_keeper::wall_clock::now()));
  show(st, r);
  if (kept) tell_drive(self, *kept);
  if (const auto slow = tells_of_drive(r) ? st.drive.stepped(*r.swap, r.step_ms) : std::nullopt)
    warn(self, *slow);
  std::lock_guard lock(st.options.outcome->mutex);
  auto& s = st.options.outcome->summary;
  for (auto* points : {&s.losses, &s.validations})  // a step that is made again counts once
    while (!points->empty() && points->back().step >= r.step) points->pop_back();
  s.seconds = st.spent_ms / 1e3;
  s.steps = std::ssize(s.losses) + 1;
  s.tokens = s.steps * st.options.job.tokens_per_step();
  s.process_peak_bytes = std::max(s.process_peak_bytes, r.process_peak_bytes);
  s.power = r.power;
  s.losses.push_back({r.step, r.loss});
  st.options.outcome->times.hear(r, st.options.outcome->step_flops);
  if (r.validation_loss) s.validations.push_back({r.step, *r.validation_loss});
}

/// Wall time, UTC, as RFC 3339 has it, so long ago.
std::string wall_time_before(double ago_s) {
  constexpr double year_s = 366.0 * 86'400;
  const double known_s = ago_s > 0 && ago_s < year_s ? ago_s : 0;  // also where it is no number
  const auto then = std::chrono::system_clock::now() -
                    std::chrono::milliseconds(static_cast<int64_t>(known_s * 1e3));
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(then)));
}

void keep(reporter_pointer self, const msg<fbs::IncidentReport>& m) {
  auto& st = self->state;
  if (m->incident() == nullptr) return;
  const auto& i = *m->incident();
  tell(self, st.folders->over(*std::unique_ptr<fbs::IncidentT>(i.UnPack()),
                              incident_keeper::wall_clock::now()));
  const report::incident line{wall_time_before(i.ago_s()),
                              st.folders->kept_as(i.number()),
                              text_of(i.finding()),
                              text_of(i.node()),
                              text_of(i.what()),
                              text_of(i.done()),
                              i.epoch_from(),
                              i.epoch_to(),
                              i.fell_after_step(),
                              i.resumed_after_step(),
                              i.noticed_s(),
                              i.named_s(),
                              i.back_s(),
                              i.rule(),
                              text_of(i.action()),
                              st.folders->folder_of(i.number())};
  if (!st.incidents) st.incidents.emplace(incidents_beside(st.options.log->path()));
  if (const auto done = st.incidents->append(report::incident_json(line)); !done)
    warn(self, done.error().message);
  st.back_by = line.done;
}

/// A path as a person would type it from here: relative where it lies below.
std::string from_here(const flatbuffers::String* path) {
  if (path == nullptr || path->size() == 0) return "";
  std::error_code code;
  const auto near = std::filesystem::proximate(path->str(), code);
  return code || near.native().starts_with("..") ? path->str() : near.string();
}

void ended(reporter_pointer self, const msg<fbs::RunEnded>& m) {
  auto& st = self->state;
  leave_line(st);
  tell(self, st.folders->look_again(incident_keeper::wall_clock::now()));
  {
    std::lock_guard lock(st.options.outcome->mutex);
    auto& o = *st.options.outcome;
    if (std::exchange(o.over, true)) return;
    o.why = error_in(*m.get());
    o.last_step = m->step();
    o.summary.checkpoint = from_here(m->checkpoint());
    o.summary.checkpoints = static_cast<int64_t>(m->checkpoints());
    o.summary.checkpoint_bytes = static_cast<int64_t>(m->checkpoint_bytes());
    o.summary.skipped_checkpoints = static_cast<int64_t>(m->skipped_checkpoints());
    o.summary.checkpoint_wait_ms = m->checkpoint_wait_ms();
    o.summary.effective_percent = m->effective_percent();
    o.summary.power_wait_ms = m->power_wait_ms();
    o.summary.recoveries = m->recoveries();
    o.summary.steps_repeated = m->steps_repeated();
    o.summary.model = from_here(m->model());
    o.summary.log = st.options.log->path();
  }
  st.options.ended();
}

void tell_progress(reporter_pointer self, std::string_view text) {
  auto& st = self->state;
  if (isatty(STDERR_FILENO) == 0) {
    if (st.progress.tells(now_ns(*self))) say(text);
    return;
  }
  leave_line(st);
  say_as_is(printable(text));
  st.progressing = true;
}

/// What a sentence is about, for who reads the log.
void write_facts(reporter_pointer self, const msg<fbs::Notice>& m) {
  if (const auto layers = text_of(m->layers()); !layers.empty())
    write_log(self, report::layers_json(unix_now(), layers, text_of(m->text())));
  if (m->joined() == nullptr) return;
  const auto& who = *m->joined();
  report::run_node line;
  line.unix_s = unix_now();
  line.epoch = m.epoch();
  line.node = text_of(who.node());
  line.is_spare = who.is_spare();
  line.host = text_of(who.host());
  line.processor = text_of(who.processor());
  line.cores = who.cores();
  line.memory_bytes = who.memory_bytes();
  if (who.gpus() != nullptr)
    for (const auto* gpu : *who.gpus()) line.gpus.push_back(text_of(gpu));
  line.gpu_driver = text_of(who.gpu_driver());
  write_log(self, report::node_json(line));
}

}  // namespace

reporter_actor::behavior_type reporter(reporter_pointer self, reporter_options options) {
  guard_mailbox(self);
  introduce(self, "reporter");
  auto& st = self->state;
  st.options = std::move(options);
  st.folders.emplace(st.options.job.job.output, st.options.job.job.name);
  st.step = st.options.after_step;
  st.epoch = st.options.epoch;
  show_log(self);
  return {
      status_handler(self),
      [self](const msg<fbs::StepReport>& m) { step(self, m); },
      [self](const msg<fbs::IncidentReport>& m) { keep(self, m); },
      [self](const msg<fbs::Evidence>& m) {
        tell(self, self->state.folders->decided(m, incident_keeper::wall_clock::now()));
      },
      [self](const msg<fbs::Notice>& m) {
        write_facts(self, m);
        if (m->level() == fbs::NoticeLevel::warning) return warn(self, text_of(m->text()));
        if (m->progress()) return tell_progress(self, text_of(m->text()));
        leave_line(self->state);
        say(text_of(m->text()));
      },
      [self](const msg<fbs::RunEnded>& m) { ended(self, m); },
  };
}

}  // namespace troupe::apps
