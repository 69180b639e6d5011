// `ckpt verify` and `ckpt diff`: what the bytes say.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/ckpt/progress_bar.hpp"
#include "apps/ckpt/verbs.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/checkpoint/diff.hpp"
#include "io/checkpoint/hold.hpp"
#include "io/checkpoint/reader.hpp"

namespace troupe::apps::ckpt {

namespace cp = io::checkpoint;
using json = nlohmann::ordered_json;

namespace {

json facts_of(const cp::damage& d) {
  json j{{"file", d.file}, {"offset", d.offset}, {"bytes", d.bytes}, {"what", d.why.message}};
  j["slot"] = d.slot ? json(*d.slot) : json(nullptr);
  j["tensors"] = d.tensors;
  j["more_tensors"] = d.more_tensors;
  return j;
}

json facts_of(const cp::tensor_difference& d) {
  json j{{"tensor", d.tensor}, {"part", cp::to_string(d.which)}, {"how", cp::to_string(d.how)}};
  j["elements"] = d.elements;
  j["differing"] = d.differing;
  j["largest"] = d.largest;  // null where it is infinite
  return j;
}

std::string line_of(const cp::tensor_difference& d) {
  auto line =
      fmt::format("{:<11} {} of {}", cp::to_string(d.how), cp::to_string(d.which), d.tensor);
  if (d.how == cp::comparison::differs)
    line +=
        fmt::format(": {} of {} elements, by {:.6g} at most", d.differing, d.elements, d.largest);
  return line + "\n";
}

}  // namespace

result<int> verify(const arguments& a) {
  TROUPE_TRY(path, find(a.path));
  TROUPE_TRY(held, cp::reading::begin(path));
  auto opened = cp::reader::open(path);
  const bool damaged = !opened && opened.error().code == errc::bad_data;
  if (!opened && !(a.json && damaged)) return opened.error();
  cp::verify_report report;
  if (opened) {
    progress_bar bar("verify");
    TROUPE_TRY(found, opened->verify({a.threads, bar.callback()}));
    report = std::move(found);
  }
  const bool sound = opened && report.damages.empty();
  if (a.json) {
    json j{{"format", json_format}, {"path", path.string()}, {"sound", sound}};
    j["bytes"] = report.bytes;
    j["damages"] = json::array();
    for (const auto& d : report.damages) j["damages"].push_back(facts_of(d));
    if (!opened) j["problem"] = opened.error().message;
    TROUPE_CHECK(print(text_of(j)));
    return sound ? 0 : exit_code(errc::bad_data);
  }
  for (const auto& d : report.damages) TROUPE_CHECK(print(render(d) + "\n"));
  if (sound) {
    say(fmt::format("{}: every byte is as it was written ({})", path.string(),
                    bytes_text(report.bytes)));
    return 0;
  }
  return error{
      errc::bad_data,
      fmt::format("{} is damaged in {}", path.string(), counted(report.damages.size(), "place")),
      "use another checkpoint: `troupe ckpt ls` lists them"};
}

result<int> diff(const arguments& a) {
  TROUPE_TRY(path_a, find(a.path));
  TROUPE_TRY(path_b, find(a.other));
  TROUPE_TRY(held_a, cp::reading::begin(path_a));
  TROUPE_TRY(held_b, cp::reading::begin(path_b));
  TROUPE_TRY(first, cp::reader::open(path_a));
  TROUPE_TRY(second, cp::reader::open(path_b));
  std::vector<cp::tensor_difference> all;
  {
    progress_bar bar("compare");
    TROUPE_TRY(found, cp::diff(first, second, {a.threads, bar.callback()}));
    all = std::move(found);
  }
  const auto differing = std::count_if(
      all.begin(), all.end(), [](const auto& d) { return d.how != cp::comparison::equal; });
  if (a.json) {
    json j{{"format", json_format}, {"a", path_a.string()}, {"b", path_b.string()}};
    j["equal"] = differing == 0;
    j["parts"] = json::array();
    for (const auto& d : all) j["parts"].push_back(facts_of(d));
    TROUPE_CHECK(print(text_of(j)));
    return differing == 0 ? 0 : 1;
  }
  std::string text;
  for (const auto& d : all)
    if (a.all || d.how != cp::comparison::equal) text += line_of(d);
  TROUPE_CHECK(print(text));
  say(differing == 0 ? fmt::format("all {} parts of tensors are equal", all.size())
                     : fmt::format("{} of {} parts of tensors differ", differing, all.size()));
  return differing == 0 ? 0 : 1;
}

}  // namespace troupe::apps::ckpt
