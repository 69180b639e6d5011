// One pass over the events, then sends and receives are matched with what they are of.
#include "trace/chrome_timeline.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/formats/byte_stream.hpp"
#include "io/formats/json_text.hpp"

namespace troupe::trace {

namespace {

using json = nlohmann::json;
using io::shown;

struct chrome_op {
  std::string_view name;
  whatif_op op;
};

constexpr chrome_op chrome_ops[] = {
    {"forward-compute", whatif_op::forward},
    {"backward-compute", whatif_op::backward},
    {"forward-recv", whatif_op::receive_activation},
    {"backward-recv", whatif_op::receive_gradient},
    {"forward-send", whatif_op::send_activation},
    {"backward-send", whatif_op::send_gradient},
    {"params-all-gather", whatif_op::all_gather},
    {"grads-reduce-scatter", whatif_op::reduce_scatter},
    {"layernorm-grads-all-reduce", whatif_op::reduce_norm_grads},
    {"embedding-grads-all-reduce", whatif_op::reduce_embeddings},
    {"optimizer-clip-main-grad", whatif_op::clip},
    {"gc", whatif_op::collect_garbage},
    {"optimizer", whatif_op::update},
};

constexpr double us_bound = 1e15;  // 31 years: no sum of times overflows
constexpr int64_t step_bound = int64_t{1} << 48;
constexpr int64_t number_bound = 1 << 30;

/// The fields of an event that are of use.
enum class field : uint8_t {
  ph,
  name,
  pid,
  tid,
  ts,
  dur,
  args,
  step,
  mb_id,
  model_chunk,
  seq_id,
  args_name,
  count
};
constexpr std::string_view field_names[] = {"ph",    "name",        "pid",    "tid",
                                            "ts",    "dur",         "args",   "step",
                                            "mb_id", "model_chunk", "seq_id", "name"};
static_assert(std::size(field_names) == static_cast<size_t>(field::count));

struct raw_event {
  uint32_t seen = 0;  ///< bits of field
  std::array<double, static_cast<size_t>(field::count)> numbers{};
  std::string ph, name, args_name;

  bool has(field f) const noexcept { return (seen >> static_cast<int>(f) & 1) != 0; }
  double number(field f) const noexcept { return numbers[static_cast<size_t>(f)]; }
};

/// Where a stream of a data rank stands: "PP rank 1, TP rank 0, compute".
std::optional<int> stage_of(std::string_view name) {
  constexpr std::string_view begin = "PP rank ";
  if (!name.starts_with(begin)) return std::nullopt;
  name.remove_prefix(begin.size());
  int out = 0;
  const auto [at, fault] = std::from_chars(name.data(), name.data() + name.size(), out);
  if (fault != std::errc() || out < 0) return std::nullopt;
  if (at != name.data() + name.size() && *at != ',') return std::nullopt;
  return out;
}

/// Hands each event on; nothing of a document is kept.
class event_reader final : public nlohmann::json_sax<json> {
 public:
  template <class F>
  explicit event_reader(F each) : each_(std::move(each)) {}

  error fault{errc::none, {}};
  uint64_t events() const noexcept { return events_; }
  bool found_list() const noexcept { return list_depth_ >= 0; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t x) override { return number(static_cast<double>(x)); }
  bool number_unsigned(number_unsigned_t x) override { return number(static_cast<double>(x)); }
  bool number_float(number_float_t x, const string_t&) override { return number(x); }
  bool binary(binary_t&) override { return value(); }

  bool string(string_t& text) override {
    if (auto* at = text_field()) *at = std::move(text);
    return value();
  }

  bool start_object(size_t) override {
    if (!deeper()) return false;
    if (list_depth_ >= 0 && depth_ == list_depth_ + 1) {
      event_ = {};
      ++events_;
      in_event_ = true;
    } else if (in_event_ && depth_ == list_depth_ + 2) {
      in_args_ = current_ == field::args;
    }
    current_ = field::count;
    return true;
  }

  bool end_object() override {
    const auto depth = depth_--;
    current_ = field::count;
    if (in_args_ && depth == list_depth_ + 2) in_args_ = false;
    if (!in_event_ || depth != list_depth_ + 1) return true;
    in_event_ = false;
    return each_(event_, events_, fault);
  }

  bool start_array(size_t) override {
    if (!deeper()) return false;
    const bool first = depth_ == 1, inside = depth_ == 2 && trace_events_;
    if (list_depth_ < 0 && (first || inside)) list_depth_ = depth_;
    current_ = field::count;
    return true;
  }

  bool end_array() override {
    if (depth_ == list_depth_) list_depth_ = closed;
    --depth_;
    return true;
  }

  bool key(string_t& name) override {
    current_ = field::count;
    trace_events_ = depth_ == 1 && name == "traceEvents";
    const bool outer = in_event_ && depth_ == list_depth_ + 1;
    const bool inner = in_args_ && depth_ == list_depth_ + 2;
    if (!outer && !inner) return true;
    const auto from = outer ? field::ph : field::step, to = outer ? field::step : field::count;
    for (auto f = static_cast<size_t>(from); f < static_cast<size_t>(to); ++f)
      if (field_names[f] == name) current_ = static_cast<field>(f);
    if (current_ != field::count && event_.has(current_))
      return fail(fmt::format("event {} has \"{}\" twice", events_, name));
    if (current_ != field::count) event_.seen |= 1u << static_cast<int>(current_);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    return fail(fmt::format("not JSON: {}", e.what()));
  }

 private:
  static constexpr int closed = 1 << 20;  // a list that has ended: nothing lies in it

  bool fail(std::string what) {
    fault =
        error{errc::bad_data, std::move(what), "a timeline of Chrome's trace events is expected"};
    return false;
  }

  bool deeper() {
    if (++depth_ <= max_chrome_depth) return true;
    return fail(
        fmt::format("JSON: nested deeper than {} levels in event {}", max_chrome_depth, events_));
  }

  bool value() {
    current_ = field::count;
    return true;
  }

  std::string* text_field() {
    if (current_ == field::ph) return &event_.ph;
    if (current_ == field::name) return &event_.name;
    return current_ == field::args_name ? &event_.args_name : nullptr;
  }

  bool number(double x) {
    if (current_ != field::count) event_.numbers[static_cast<size_t>(current_)] = x;
    return value();
  }

  std::function<bool(const raw_event&, uint64_t, error&)> each_;
  raw_event event_;
  uint64_t events_ = 0;
  int depth_ = 0;
  int list_depth_ = -1;  ///< of the list of events, -1: not come to yet
  bool in_event_ = false, in_args_ = false, trace_events_ = false;
  field current_ = field::count;
};

/// A span before its stage is known: names of streams stand anywhere among the events.
struct placed_span {
  whatif_span span;
  int64_t tid = 0;
  uint64_t event = 0;
};

class timeline_reader {
 public:
  explicit timeline_reader(const chrome_layout& layout) : layout_(layout) {}

  result<std::vector<whatif_span>> read(std::string_view text) {
    event_reader reader([this](const raw_event& e, uint64_t number, error& fault) {
      auto took = take(e, number);
      if (!took) fault = took.error();
      return took.has_value();
    });
    if (!json::sax_parse(text.begin(), text.end(), &reader)) return reader.fault;
    if (!reader.found_list()) return bad("the JSON holds no list of trace events");
    TROUPE_CHECK(find_stages());
    TROUPE_CHECK(number_neighbours());
    std::vector<whatif_span> out;
    out.reserve(spans_.size());
    for (const auto& s : spans_) out.push_back(s.span);
    if (out.empty()) return bad("the timeline holds none of the operations of a training step");
    return out;
  }

 private:
  static error bad(std::string what) {
    return {errc::bad_data, std::move(what),
            "expected: events like {\"ph\":\"X\",\"name\":\"forward-compute\",\"pid\":0,\"tid\":0,"
            "\"ts\":0,\"dur\":1,\"args\":{\"step\":0,\"mb_id\":0,\"model_chunk\":0,\"seq_id\":0}}"};
  }

  /// A whole number of a field within [least, most]; 0 where it is not given and may be missing.
  result<int64_t> whole(const raw_event& e, uint64_t number, field f, int64_t least,
                        int64_t most) const {
    const auto x = e.number(f);
    const auto name = field_names[static_cast<size_t>(f)];
    if (!e.has(f))
      return bad(fmt::format("event {} (\"{}\") has no \"{}\"", number, shown(e.name), name));
    if (!(x >= static_cast<double>(least) && x <= static_cast<double>(most)) || x != std::floor(x))
      return bad(fmt::format("event {}: \"{}\" is {}, expected a whole number from {} to {}",
                             number, name, x, least, most));
    return static_cast<int64_t>(x);
  }

  status take(const raw_event& e, uint64_t number) {
    if (e.ph == "M" && e.name == "thread_name") {
      const auto stage = stage_of(e.args_name);
      if (!stage) return {};  // somebody else's
      TROUPE_TRY(pid, whole(e, number, field::pid, 0, layout_.data - 1));
      TROUPE_TRY(tid, whole(e, number, field::tid, 0, number_bound));
      if (*stage >= layout_.pipeline)
        return bad(fmt::format("event {}: PP rank {} is not of the layout's {} stages", number,
                               *stage, layout_.pipeline));
      stages_[{pid, tid}] = *stage;
      return {};
    }
    if (e.ph != "X") return {};
    const auto* known = std::find_if(std::begin(chrome_ops), std::end(chrome_ops),
                                     [&](const chrome_op& o) { return o.name == e.name; });
    if (known == std::end(chrome_ops)) return {};
    return take_operation(e, number, known->op);
  }

  status take_operation(const raw_event& e, uint64_t number, whatif_op op) {
    TROUPE_TRY(pid, whole(e, number, field::pid, 0, layout_.data - 1));
    TROUPE_TRY(tid, whole(e, number, field::tid, 0, number_bound));
    TROUPE_TRY(step, whole(e, number, field::step, 0, step_bound));
    TROUPE_TRY(nth, whole(e, number, field::seq_id, 0, number_bound));
    for (const auto f : {field::ts, field::dur})
      if (const auto x = e.number(f); !e.has(f) || !(std::abs(x) <= us_bound))
        return bad(fmt::format("event {}: \"{}\" is {}, expected microseconds within {:g}", number,
                               field_names[static_cast<size_t>(f)],
                               e.has(f) ? fmt::format("{}", x) : "missing", us_bound));
    placed_span p;
    auto& s = p.span;
    s.op = op;
    s.step = static_cast<uint64_t>(step);
    s.data = static_cast<int32_t>(pid);
    s.number = static_cast<int32_t>(nth);
    if (op == whatif_op::forward || op == whatif_op::backward) {
      TROUPE_TRY(batch, whole(e, number, field::mb_id, 0, number_bound));
      TROUPE_TRY(chunk, whole(e, number, field::model_chunk, 0, layout_.chunks - 1));
      s.number = static_cast<int32_t>(batch);
      s.chunk = static_cast<int32_t>(chunk);
    } else if (op == whatif_op::all_gather || op == whatif_op::reduce_scatter) {
      TROUPE_TRY(chunk, whole(e, number, field::model_chunk, 0, layout_.chunks - 1));
      s.chunk = static_cast<int32_t>(chunk);
    }
    s.begin_ns = std::llround(e.number(field::ts) * 1e3);
    s.end_ns = std::llround((e.number(field::ts) + e.number(field::dur)) * 1e3);
    p.tid = tid;
    p.event = number;
    spans_.push_back(std::move(p));
    return {};
  }

  status find_stages() {
    for (auto& p : spans_) {
      const auto it = stages_.find({p.span.data, p.tid});
      if (it == stages_.end())
        return bad(
            fmt::format("event {}: stream {} of data rank {} has no name that begins with "
                        "\"PP rank N\"",
                        p.event, p.tid, p.span.data));
      p.span.pipeline = it->second;
    }
    return {};
  }

  /// Gives the sends and receives of each rank and step the micro-batch and chunk of the
  /// computations that have something to send or receive, in the order of both.
  status number_neighbours() {
    std::map<std::tuple<uint64_t, int32_t, int32_t, whatif_op>, std::vector<placed_span*>> of;
    for (auto& p : spans_) of[{p.span.step, p.span.data, p.span.pipeline, p.span.op}].push_back(&p);
    for (auto& [key, list] : of)
      std::sort(list.begin(), list.end(), [](const placed_span* a, const placed_span* b) {
        return std::tuple(a->span.begin_ns, a->event) < std::tuple(b->span.begin_ns, b->event);
      });
    for (auto& [key, list] : of) {
      const auto& [step, data, stage, op] = key;
      const bool forward = op == whatif_op::send_activation || op == whatif_op::receive_activation;
      const bool up = op == whatif_op::send_activation || op == whatif_op::receive_gradient;
      if (!forward && op != whatif_op::send_gradient && op != whatif_op::receive_gradient) continue;
      std::vector<const placed_span*> computes;
      for (const auto* c :
           of[{step, data, stage, forward ? whatif_op::forward : whatif_op::backward}])
        if (const auto part = c->span.chunk * layout_.pipeline + stage;
            up ? part + 1 < layout_.chunks * layout_.pipeline : part > 0)
          computes.push_back(c);
      if (computes.size() != list.size())
        return bad(fmt::format(
            "event {}: step {}, data rank {}, stage {} has {} {} and {} computations for them",
            list.front()->event, step, data, stage, list.size(), to_string(op), computes.size()));
      for (size_t i = 0; i < list.size(); ++i) {
        list[i]->span.number = computes[i]->span.number;
        list[i]->span.chunk = computes[i]->span.chunk;
      }
    }
    return {};
  }

  const chrome_layout layout_;
  std::map<std::pair<int64_t, int64_t>, int> stages_;  ///< by data rank and stream
  std::vector<placed_span> spans_;
};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r'))
    s.remove_suffix(1);
  return s;
}

}  // namespace

result<chrome_layout> parse_chrome_layout(std::string_view yaml) {
  constexpr std::string_view sizes[] = {"dp_size",  "pp_size", "vpp_size",
                                        "dsp_size", "tp_size", "world_size"};
  std::array<int64_t, std::size(sizes)> values{};
  const auto bad = [](size_t line, std::string what) {
    return error{errc::bad_data, fmt::format("line {}: {}", line, what),
                 "a layout is lines like \"dp_size: 4\"; dp_size, pp_size and vpp_size are needed"};
  };
  size_t line = 0;
  while (!yaml.empty()) {
    const auto end = std::min(yaml.find('\n'), yaml.size());
    auto text = yaml.substr(0, end);
    yaml.remove_prefix(std::min(end + 1, yaml.size()));
    ++line;
    text = trimmed(text.substr(0, std::min(text.find('#'), text.size())));
    if (text.empty() || text == "---") continue;
    const auto colon = text.find(':');
    if (colon == text.npos)
      return bad(line, fmt::format("\"{}\" is no \"key: value\"", shown(text)));
    const auto name = trimmed(text.substr(0, colon)), value = trimmed(text.substr(colon + 1));
    const auto at = static_cast<size_t>(std::find(std::begin(sizes), std::end(sizes), name) -
                                        std::begin(sizes));
    if (at == std::size(sizes)) {
      if (name == "trial_name" || name == "run_id") continue;
      return bad(line, fmt::format("unknown key \"{}\"", shown(name)));
    }
    if (values[at] != 0) return bad(line, fmt::format("{} is given twice", name));
    const auto [stop, fault] =
        std::from_chars(value.data(), value.data() + value.size(), values[at]);
    if (fault != std::errc() || stop != value.data() + value.size() || values[at] < 1 ||
        values[at] > static_cast<int64_t>(max_whatif_cells))
      return bad(line, fmt::format("{} is \"{}\", expected a whole number from 1 to {}", name,
                                   shown(value), max_whatif_cells));
  }
  for (size_t i = 0; i < 3; ++i)
    if (values[i] == 0) return bad(line, fmt::format("{} is missing", sizes[i]));
  if (values[1] * values[2] > static_cast<int64_t>(max_whatif_cells))
    return bad(line, fmt::format("{} x {} parts of a model are more than {}", values[1], values[2],
                                 max_whatif_cells));
  if (values[0] * values[1] > static_cast<int64_t>(max_whatif_cells))
    return bad(line, fmt::format("{} x {} ranks are more than {}", values[0], values[1],
                                 max_whatif_cells));
  return chrome_layout{static_cast<int>(values[0]), static_cast<int>(values[1]),
                       static_cast<int>(values[2])};
}

result<std::vector<whatif_span>> parse_chrome_timeline(std::string_view json_text,
                                                       const chrome_layout& layout) {
  return timeline_reader(layout).read(json_text);
}

result<chrome_layout> read_chrome_layout(const std::filesystem::path& path) {
  TROUPE_TRY(text, io::read_file(path, max_layout_bytes));
  auto out = parse_chrome_layout(text);
  if (!out) return out.error().within(path.string());
  return out;
}

result<std::vector<whatif_span>> read_chrome_timeline(const std::filesystem::path& path,
                                                      const chrome_layout& layout) {
  TROUPE_TRY(text, io::read_unpacked(path, max_chrome_bytes));
  auto out = parse_chrome_timeline(text, layout);
  if (!out) return out.error().within(path.string());
  return out;
}

}  // namespace troupe::trace
