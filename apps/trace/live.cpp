// `troupe trace live` and `troupe trace record`: what happens in a running cluster, shown or kept.
#include "apps/trace/verbs.hpp"

#include <unistd.h>
#include <bit>
#include <csignal>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/control/session.hpp"
#include "apps/up/signals.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "messages/registry.hpp"
#include "trace/batch.hpp"
#include "trace/text.hpp"
#include "trace/trace_file.hpp"

namespace troupe::apps {

namespace {

constexpr uint32_t lease_ms = 10'000;
constexpr int wait_ms = 250;

struct live_arguments {
  connect_options connect;
  std::string node, actor, message, slower_than, rate, out;
  uint64_t limit = 100;
  double seconds = 0;
  bool payloads = false, past = false, json = false;
};

/// "5ms", "20us", "1s", "300" (nanoseconds).
result<int64_t> duration_of(const std::string& text) {
  if (text.empty()) return int64_t{0};
  char* unit = nullptr;
  const double value = std::strtod(text.c_str(), &unit);
  const std::string_view u = unit;
  const double factor = u.empty() || u == "ns" ? 1
                        : u == "us"            ? 1e3
                        : u == "ms"            ? 1e6
                        : u == "s"             ? 1e9
                                               : -1;
  if (unit == text.c_str() || factor < 0 || !(value >= 0) || value * factor > 1e18)
    return error{errc::usage, fmt::format("invalid duration: {}", text), "e.g. 5ms, 20us, 1s"};
  return static_cast<int64_t>(value * factor);
}

/// "50/s" or "50".
result<uint32_t> rate_of(const std::string& text) {
  if (text.empty()) return uint32_t{0};
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (end == text.c_str() || (*end != '\0' && std::string_view(end) != "/s") || value < 1 ||
      value > 1'000'000)
    return error{errc::usage, fmt::format("invalid rate: {}", text), "e.g. 50/s"};
  return static_cast<uint32_t>(value);
}

result<fbs::TraceStartT> start_of(const live_arguments& a) {
  fbs::TraceStartT s;
  s.node = a.node;
  s.actor = a.actor;
  s.message = a.message;
  TROUPE_TRY(slower, duration_of(a.slower_than));
  TROUPE_TRY(rate, rate_of(a.rate));
  s.slower_than_ns = slower;
  s.rate_per_s = rate;
  s.max_records = a.limit;
  s.payloads = a.payloads;
  s.past = a.past;
  s.lease_ms = lease_ms;
  return s;
}

/// Ends the view at a signal: a thread that waits for it and wakes the session.
class interrupter {
 public:
  interrupter(signal_queue& signals, session& s) : signals_(signals) {
    waiter_ = std::thread([this, &s] {
      while (!over_) {
        const auto event = signals_.wait(-1);
        if (event && (*event == SIGINT || *event == SIGTERM || *event == SIGHUP)) {
          signal_ = *event;
          s.wake();
        }
      }
    });
  }
  ~interrupter() {
    over_ = true;
    signals_.wake();
    waiter_.join();
  }
  int signal() const { return signal_; }

 private:
  signal_queue& signals_;
  std::atomic<bool> over_{false};
  std::atomic<int> signal_{0};
  std::thread waiter_;
};

// -- showing --------------------------------------------------------------------------------------

/// Names and messages of the processes that send, as they come.
class narrator {
 public:
  /// `view` names the actors that exist already, wherever they are.
  narrator(const live_arguments& a, const fbs::ClusterViewT& view) : arguments_(a) {
    for (const auto& n : view.nodes)
      for (const auto& actor : n->actors) paths_[actor->key] = actor->path;
  }

  /// Prints the records of a batch.
  status show(const msg<fbs::TraceBatch>& batch) {
    learn(batch);
    TROUPE_TRY(records, trace::records_of(*batch));
    std::map<std::pair<uint32_t, int64_t>, std::string> contents;
    if (batch->messages() != nullptr)
      for (const auto* m : *batch->messages()) {
        auto decoded = m->message() ? decode({m->message()->data(), m->message()->size()})
                                    : result<any_msg>(error{errc::bad_data, ""});
        if (decoded) contents[{m->actor(), m->begin_ns()}] = to_json(*decoded);
      }
    for (const auto& r : records) {
      if (shown_ >= arguments_.limit) return {};
      const auto it = contents.find({r.actor, r.begin_ns});
      TROUPE_CHECK(line(batch, r, it == contents.end() ? std::string() : it->second));
      ++shown_;
    }
    return {};
  }

  uint64_t shown() const { return shown_; }

 private:
  void learn(const msg<fbs::TraceBatch>& batch) {
    const uint64_t process = uint64_t{batch->process()} << 32;
    if (batch->actors() != nullptr)
      for (const auto* a : *batch->actors())
        paths_[process | a->number()] = a->path() ? a->path()->str() : "";
    if (batch->works() != nullptr && batch->works()->size() > 0) {
      auto& names = works_[batch->process()];
      names.clear();
      for (const auto* w : *batch->works()) names.push_back(w->str());
    }
  }

  std::string path_of(uint64_t key) const {
    const auto it = paths_.find(key);
    if (it != paths_.end()) return it->second;
    return key == 0 ? "-" : fmt::format("{:x}/{}", key >> 32, key & 0xffffffff);
  }

  std::string name_of(uint32_t process, const trace_record& r) {
    if (r.kind != record_kind::handled) {
      const auto& names = works_[process];
      return r.type >= 1 && r.type <= names.size() ? names[r.type - 1] : "?";
    }
    const auto* m = find_message(r.type);
    return m != nullptr ? std::string(m->name) : "(system)";
  }

  status line(const msg<fbs::TraceBatch>& b, const trace_record& r, const std::string& content) {
    const uint64_t key = uint64_t{b->process()} << 32 | r.actor;
    const auto at = r.begin_ns + b->offset_ns();
    if (first_ns_ == 0) first_ns_ = at;
    const bool work = r.kind == record_kind::work;
    const auto took = static_cast<int64_t>(static_cast<double>(r.handling_s) * 1e9);
    const auto waited = static_cast<int64_t>(r.waiting_s() * 1e9);
    const auto name = name_of(b->process(), r);
    if (r.kind == record_kind::counter)
      return counter(b->node() ? b->node()->str() : "", path_of(key), name, at,
                     std::bit_cast<double>(r.sender));
    if (arguments_.json)
      return print(fmt::format(
          R"({{"at_s":{:.9f},"node":"{}","actor":"{}","kind":"{}","name":"{}","sender":"{}",)"
          R"("waited_s":{:.9f},"mailbox_s":{:.9f},"took_s":{:.9f},"bytes":{},"span":"{:016x}",)"
          R"("parent":"{:016x}","trace":"{:016x}","message":{}}})"
          "\n",
          static_cast<double>(at) / 1e9, b->node() ? b->node()->str() : "", path_of(key),
          work ? "work" : "message", name, work ? "" : path_of(r.sender), r.waiting_s(),
          r.mailbox_s, r.handling_s, r.bytes, r.span, r.parent, r.trace,
          content.empty() ? "null" : content));
    const auto width = static_cast<size_t>(std::max(40, terminal_columns(STDOUT_FILENO, 160)));
    auto text = fmt::format("{:>+12.6f} {:<14} {:<20} from {:<14} waited {:>8} took {:>8}",
                            static_cast<double>(at - first_ns_) / 1e9, path_of(key), name,
                            work ? fmt::format("#{}", r.sender) : path_of(r.sender),
                            trace::duration_text(std::max<int64_t>(0, waited)),
                            trace::duration_text(took));
    if (!content.empty() && text.size() + 8 < width)
      text += " " + trace::cut(content, width - text.size() - 1);
    return print(text + "\n");
  }

  status counter(const std::string& node, const std::string& actor, const std::string& name,
                 int64_t at_ns, double value) {
    if (arguments_.json)
      return print(fmt::format(
          R"({{"at_s":{:.9f},"node":"{}","actor":"{}","kind":"counter","name":"{}","value":{}}})"
          "\n",
          static_cast<double>(at_ns) / 1e9, node, actor, name, value));
    return print(fmt::format("{:>+12.6f} {:<14} {:<20} is {:.1f}\n",
                             static_cast<double>(at_ns - first_ns_) / 1e9, actor, name, value));
  }

  const live_arguments& arguments_;
  std::map<uint64_t, std::string> paths_;
  std::map<uint32_t, std::vector<std::string>> works_;
  int64_t first_ns_ = 0;
  uint64_t shown_ = 0;
};

/// Batches until the view is over, the person has seen enough, or the cluster has ended; why it
/// ended.
template <class Each>
result<std::string> follow(session& s, const live_arguments& a, size_t senders,
                           const interrupter& person, Each each) {
  const auto begun = std::chrono::steady_clock::now();
  std::set<uint32_t> over;
  uint64_t dropped = 0, lost = 0;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> left_out;
  std::string why = "interrupted";
  while (person.signal() == 0) {
    if (auto batch = s.next_batch(wait_ms)) {
      const bool gone = (*batch)->sequence() == 0;  // the gateway says it of a process
      auto more = gone ? result<bool>(true) : each(*batch);
      if (!more) return more.error();
      if (!gone) left_out[(*batch)->process()] = {(*batch)->dropped(), (*batch)->lost()};
      if ((*batch)->over() != nullptr && (*batch)->over()->size() > 0) {
        why = (*batch)->over()->str();
        over.insert((*batch)->process());
        if (gone && over.size() < senders) say(why);
      }
      if (!*more) why = fmt::format("the limit of {} is reached", counted(a.limit, "record"));
      if (!*more || over.size() >= senders) break;
    } else if (s.lost()) {
      why = "the cluster has ended";
      break;
    }
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - begun;
    if (a.seconds > 0 && past.count() >= a.seconds) {
      why = fmt::format("{} s are over", a.seconds);
      break;
    }
  }
  s.stop_trace();
  for (const auto& [process, counts] : left_out) {
    dropped += counts.first;
    lost += counts.second;
  }
  if (dropped + lost > 0)
    why += fmt::format("; left out: {} for the rate or a slow viewer, {} overwritten", dropped,
                       lost);
  return why;
}

result<int> live(const live_arguments& a) {
  TROUPE_TRY(signals, signal_queue::open());
  TROUPE_TRY(start, start_of(a));
  TROUPE_TRY(s, session::open(a.connect));
  TROUPE_TRY(view, s->view("", "", true));
  TROUPE_TRY(nodes, s->start_trace(start));
  say(fmt::format("tracing {} ({} at most; Ctrl-C ends it)", fmt::join(nodes, ", "),
                  counted(a.limit, "record")));
  interrupter person(*signals, *s);
  narrator n(a, view);
  auto each = [&](const msg<fbs::TraceBatch>& b) -> result<bool> {
    TROUPE_CHECK(n.show(b));
    return n.shown() < a.limit;
  };
  TROUPE_TRY(why, follow(*s, a, nodes.size(), person, each));
  say(fmt::format("tracing is off: {}; {} shown", why, counted(n.shown(), "record")));
  return 0;
}

result<int> record(const live_arguments& a) {
  TROUPE_TRY(signals, signal_queue::open());
  TROUPE_TRY(start, start_of(a));
  TROUPE_TRY(file, trace::trace_writer::create(a.out));
  TROUPE_TRY(s, session::open(a.connect));
  TROUPE_TRY(nodes, s->start_trace(start));
  say(fmt::format("recording {} into {} ({}; Ctrl-C ends it)", fmt::join(nodes, ", "), a.out,
                  a.seconds > 0 ? fmt::format("{} s", a.seconds) : "until you say"));
  interrupter person(*signals, *s);
  uint64_t records = 0;
  auto each = [&](const msg<fbs::TraceBatch>& b) -> result<bool> {
    TROUPE_CHECK(file.append(b));
    if (b->records() != nullptr) records += b->records()->size() / sizeof(trace_record);
    return true;
  };
  TROUPE_TRY(why, follow(*s, a, nodes.size(), person, each));
  TROUPE_CHECK(file.finish());
  say(fmt::format("{}; {} in {} ({})", why, counted(records, "record"), a.out,
                  bytes_text(file.size())));
  return 0;
}

void add_filters(command* verb, live_arguments& a) {
  add_connect_options(verb, a.connect);
  verb->add_option("--node", a.node, "Only nodes whose name fits, e.g. 'a*'")->takes(offered::node);
  verb->add_option("--actor", a.actor, "Only actors whose path fits, e.g. 'stage/*'")
      ->takes(offered::actor);
  verb->add_option("--message", a.message, "Only messages and work whose name fits, e.g. 'Run*'")
      ->takes(offered::message);
  verb->add_option("--slower-than", a.slower_than, "Only what waited or took that long, e.g. 5ms");
  verb->add_option("--rate", a.rate, "At most so many a second and process, e.g. 50/s");
  verb->add_flag("--payloads", a.payloads, "With the messages themselves");
  verb->add_flag("--past", a.past, "Begin with what the flight recorder holds already");
}

}  // namespace

result<trace::timeline> timeline_of_cluster(const connect_options& connect, double seconds) {
  live_arguments a;
  a.connect = connect;
  a.seconds = seconds;
  a.limit = 10'000'000;
  TROUPE_TRY(signals, signal_queue::open());
  TROUPE_TRY(start, start_of(a));
  TROUPE_TRY(s, session::open(a.connect));
  TROUPE_TRY(nodes, s->start_trace(start));
  say(fmt::format("recording {} for {} s (Ctrl-C ends it)", fmt::join(nodes, ", "), seconds));
  interrupter person(*signals, *s);
  trace::trace_contents contents;
  trace::batch_checker checker;
  auto each = [&](const msg<fbs::TraceBatch>& b) -> result<bool> {
    TROUPE_TRY(batch, checker.check(*b));
    contents.records += batch.records.size();
    contents.batches.push_back(std::move(batch));
    return true;
  };
  TROUPE_TRY(why, follow(*s, a, nodes.size(), person, each));
  say(fmt::format("{}; {}", why, counted(contents.records, "record")));
  contents.works = checker.works();
  return trace::timeline::build(std::move(contents));
}

void add_trace_live(shell& sh, command* trace) {
  auto a = std::make_shared<live_arguments>();
  a->rate = "50/s";
  auto* verb = trace->add_subcommand("live", "Show the messages of a running cluster");
  add_filters(verb, *a);
  verb->add_option("--max", a->limit, "Ends after so many records")
      ->within(uint64_t{1}, uint64_t{1'000'000});
  verb->add_flag("--json", a->json, "A JSON object a line");
  on_run(sh, verb, [a] { return live(*a); });
}

void add_trace_record(shell& sh, command* trace) {
  auto a = std::make_shared<live_arguments>();
  a->limit = 10'000'000;
  auto* verb = trace->add_subcommand("record", "Keep what happens in a running cluster in a file");
  add_filters(verb, *a);
  verb->add_option("OUT", a->out, "The file to write")->required();
  verb->add_option("--seconds", a->seconds, "Ends after so long; 0: with Ctrl-C");
  verb->add_option("--max", a->limit, "Ends after so many records of a process")
      ->within(uint64_t{1}, uint64_t{1'000'000'000});
  verb->footer(
      "Examples:\n"
      "  troupe trace record run.trace --seconds 10\n"
      "  troupe trace why --step 12 run.trace");
  on_run(sh, verb, [a] { return record(*a); });
}

}  // namespace troupe::apps
