// `troupe trace export`: a trace for other tools.
#include "trace/export.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "apps/trace/verbs.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"

namespace troupe::apps {

namespace {

struct export_arguments {
  std::vector<std::string> files;
  std::string out, trace;
  uint64_t step = 0;
  size_t most = 200;
  bool perfetto = false, otlp = false, mermaid = false, csv = false, force = false;
};

/// How the chosen format's file is called, and what a person does with it.
struct file_kind {
  const char *ending, *opens;
};

file_kind kind_of(const export_arguments& a) {
  if (a.perfetto) return {".perfetto.json", "open it at ui.perfetto.dev, or in chrome://tracing"};
  if (a.csv) return {".csv", "open it in a spreadsheet; the first line names the columns"};
  if (a.mermaid) return {".mmd", "paste it at mermaid.live, or into Markdown as ```mermaid"};
  return {".otlp.json", "send it: curl --json @FILE localhost:4318/v1/traces"};
}

/// The file to write, which is not there yet or may be replaced.
result<std::filesystem::path> target_of(const export_arguments& a) {
  namespace fs = std::filesystem;
  const auto out = a.out.empty() ? fs::path(a.files.front()).replace_extension(kind_of(a).ending)
                                 : fs::path(a.out);
  std::error_code none;
  const auto there = fs::status(out, none);
  if (!fs::exists(there)) return out;
  if (!fs::is_regular_file(there))
    return error{errc::permission, fmt::format("{} is no file", out.string()),
                 "name a file; `-o -` writes to stdout"};
  for (const auto& file : a.files)
    if (fs::equivalent(out, file, none))
      return error{errc::permission, fmt::format("{} is the trace itself", out.string()),
                   "name another file with -o"};
  if (!a.force)
    return error{errc::permission, fmt::format("{} exists already", out.string()),
                 "name another file with -o, or say --force to overwrite it"};
  return out;
}

/// The trace id of --trace (hex) or --step, else of the slowest step's.
result<uint64_t> trace_id(const trace::timeline& t, const export_arguments& a, bool step_given) {
  if (!a.trace.empty()) {
    uint64_t id = 0;
    const auto* end = a.trace.data() + a.trace.size();
    const auto [at, fault] = std::from_chars(a.trace.data(), end, id, 16);
    if (fault != std::errc() || at != end || id == 0)
      return error{errc::usage, fmt::format("invalid trace id: {}", a.trace),
                   "up to 16 hexadecimal digits, as `troupe trace live` shows them"};
    return id;
  }
  for (const auto& s : t.steps())
    if (!step_given || s.number == a.step) return s.span;
  if (step_given)
    return error{errc::not_found, fmt::format("the trace does not hold step {}", a.step)};
  for (const auto& e : t.events())
    if (e.record.trace != 0) return e.record.trace;
  return error{errc::not_found, "nothing in the file has a trace id"};
}

status write(const trace::timeline& t, const export_arguments& a, bool step_given,
             trace::text_sink sink) {
  if (a.perfetto) return trace::export_perfetto(t, std::move(sink));
  if (a.csv) return trace::export_csv(t, std::move(sink));
  if (a.mermaid) {
    TROUPE_TRY(id, trace_id(t, a, step_given));
    return trace::export_mermaid(t, {id, a.most}, std::move(sink));
  }
  trace::otlp_options options;
  if (const char* name = std::getenv("OTEL_SERVICE_NAME"); name != nullptr && *name != '\0')
    options.service = name;
  if (!t.unix_offset_ns())
    say("note: the trace does not tell the time of day; times are of the coordinator's clock");
  TROUPE_TRY(left_out, trace::export_otlp(t, options, std::move(sink)));
  if (left_out > 0)
    say(fmt::format("note: {} left out",
                    counted(left_out, "message of the actor system itself has no span and was",
                            "messages of the actor system itself have no span and were")));
  return {};
}

result<int> run_export(const export_arguments& a, bool step_given) {
  if (a.perfetto + a.otlp + a.mermaid + a.csv != 1)
    return error{errc::usage, "`troupe trace export` needs one format",
                 "--perfetto, --otlp, --mermaid or --csv"};
  if (a.out == "-") {
    TROUPE_TRY(timeline, timeline_of(a.files));
    TROUPE_CHECK(write(timeline, a, step_given, [](std::string_view text) { return print(text); }));
    return 0;
  }
  TROUPE_TRY(out, target_of(a));
  TROUPE_TRY(timeline, timeline_of(a.files));
  TROUPE_TRY(file, io::atomic_file::create(out));
  TROUPE_CHECK(
      write(timeline, a, step_given, [&](std::string_view text) { return file.write(text); }));
  const auto bytes = file.size();
  TROUPE_CHECK(file.commit());
  say(fmt::format("{}: {}, {}", out.string(), counted(timeline.events().size(), "record"),
                  bytes_text(bytes)));
  say(kind_of(a).opens);
  return 0;
}

}  // namespace

void add_trace_export(shell& sh, command* trace) {
  auto* verb = trace->add_subcommand("export", "Turn a trace into a file of another tool");
  verb->footer(
      "Examples:\n"
      "  troupe trace export --perfetto run.trace\n"
      "  troupe trace export --otlp run.trace -o - | curl --json @- localhost:4318/v1/traces\n"
      "  troupe trace export --mermaid --step 12 run.trace");
  auto a = std::make_shared<export_arguments>();
  verb->add_option("FILE", a->files, "Trace files and black boxes; several become one")->required();
  verb->add_flag("--perfetto", a->perfetto, "Chrome's JSON trace events, for ui.perfetto.dev");
  verb->add_flag("--otlp", a->otlp, "OTLP/HTTP's JSON, for an OpenTelemetry collector");
  verb->add_flag("--mermaid", a->mermaid, "A sequence diagram of one step or trace");
  verb->add_flag("--csv", a->csv, "One line a record");
  verb->add_option("-o,--out", a->out,
                   "The file to write, - for stdout; default: beside the first trace, with the "
                   "format's ending")
      ->takes(offered::file);
  verb->add_flag("--force", a->force, "Overwrite the file where it exists");
  auto* step = verb->add_option("--step", a->step, "Of a diagram: which step; else the first");
  verb->add_option("--trace", a->trace, "Of a diagram: which trace id, hexadecimal");
  verb->add_option("--max", a->most, "Of a diagram: the most messages it shows")
      ->within(size_t{1}, size_t{100'000});
  on_run(sh, verb, [a, step] { return run_export(*a, step->count() > 0); });
}

}  // namespace troupe::apps
