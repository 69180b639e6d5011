// A reader of lines with commas, and what it takes for a profile.
#include "actors/power/clock_profile.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "io/base/text.hpp"

namespace troupe::power {

namespace {

constexpr std::string_view profile_heading = "stage,instruction,frequency,time,energy";
constexpr std::string_view rows_mark = "# micro_batch = ", tokens_mark = ", seq_len = ";
constexpr size_t shown_bytes = 40;

/// A whole field as a number in [least, most]; NaN is none.
template <class T>
std::optional<T> number_in(std::string_view field, T least, T most) {
  T out{};
  const auto* end = field.data() + field.size();
  const auto read = std::from_chars(field.data(), end, out);
  if (read.ec != std::errc() || read.ptr != end || !(out >= least && out <= most))
    return std::nullopt;
  return out;
}

/// A row with its place.
struct placed_row {
  int stage = 0;
  instruction which = instruction::forward;
  clock_row row;
};

error wrong_field(size_t line, std::string_view name, std::string_view found,
                  std::string_view expected) {
  return bad_profile(
      line, fmt::format("{} is \"{}\", not {}", name, found.substr(0, shown_bytes), expected));
}

result<placed_row> row_of(const std::vector<std::string_view>& fields, size_t line) {
  if (fields.size() != 5)
    return bad_profile(line, fmt::format("{} fields, not 5: {}", fields.size(), profile_heading));
  placed_row out;
  const auto stage = number_in(fields[0], 0, clock_profile::most_stages - 1);
  if (!stage)
    return wrong_field(line, "stage", fields[0],
                       fmt::format("an integer from 0 to {}", clock_profile::most_stages - 1));
  out.stage = *stage;
  if (fields[1] != "forward" && fields[1] != "backward")
    return wrong_field(line, "instruction", fields[1], "forward or backward");
  out.which = fields[1] == "forward" ? instruction::forward : instruction::backward;
  const auto frequency = number_in(fields[2], 1, clock_profile::mhz_ceiling);
  if (!frequency)
    return wrong_field(line, "frequency", fields[2],
                       fmt::format("an integer from 1 to {} (MHz)", clock_profile::mhz_ceiling));
  out.row.frequency_mhz = *frequency;
  const auto time = number_in(fields[3], 1e-9, clock_profile::s_ceiling);
  if (!time)
    return wrong_field(line, "time", fields[3],
                       fmt::format("a number from 1e-9 to {} (s)", clock_profile::s_ceiling));
  out.row.time_s = *time;
  const double most_j = clock_profile::most_w * clock_profile::s_ceiling;
  const auto energy = number_in(fields[4], 0.0, most_j);
  if (!energy)
    return wrong_field(line, "energy", fields[4], fmt::format("a number from 0 to {} (J)", most_j));
  out.row.energy_j = *energy;
  const double mean_w = *energy / *time;
  if (mean_w < clock_profile::least_w || mean_w > clock_profile::most_w)
    return bad_profile(
        line, fmt::format("{} J in {} s are {:.3g} W, not {} to {}: is a unit another one than s "
                          "or J?",
                          *energy, *time, mean_w, clock_profile::least_w, clock_profile::most_w));
  return out;
}

/// PCL-3. None: it is another comment.
result<std::optional<micro_batch_size>> size_in(std::string_view comment, size_t line) {
  if (!comment.starts_with(rows_mark)) return std::optional<micro_batch_size>();
  const auto said = comment.substr(rows_mark.size());
  const auto mark = std::min(said.find(tokens_mark), said.size());
  const auto rest = std::min(mark + tokens_mark.size(), said.size());
  const auto rows = number_in(said.substr(0, mark), int64_t{1}, clock_profile::size_ceiling);
  const auto tokens = number_in(said.substr(rest), int64_t{1}, clock_profile::size_ceiling);
  if (rows && tokens) return std::optional(micro_batch_size{*rows, *tokens});
  return bad_profile(line, fmt::format("\"{}\" is not of the form \"{}2{}1024\"",
                                       comment.substr(0, shown_bytes), rows_mark, tokens_mark));
}

/// Stages without a gap, each with both instructions.
status check_whole(const clock_profile& profile, size_t last_line) {
  if (profile.stages.empty()) return bad_profile(last_line, "the file ends without a row");
  for (size_t s = 0; s < profile.stages.size(); ++s)
    for (const auto which : {instruction::forward, instruction::backward})
      if (profile.rows(static_cast<int>(s), which).empty())
        return bad_profile(last_line,
                           fmt::format("the file ends without a {} of stage {}; stages are 0 to {}",
                                       to_string(which), s, profile.stages.size() - 1));
  return {};
}

/// Collects rows and refuses what is there already.
class profile_reader {
 public:
  status take(const placed_row& r, size_t line) {
    const auto [it, fresh] = lines_.try_emplace({r.stage, r.which, r.row.frequency_mhz}, line);
    if (!fresh)
      return bad_profile(
          line, fmt::format("{} of stage {} at {} MHz is in line {} already", to_string(r.which),
                            r.stage, r.row.frequency_mhz, it->second));
    const auto stage = static_cast<size_t>(r.stage);
    if (profile.stages.size() <= stage) profile.stages.resize(stage + 1);
    auto& rows = profile.stages[stage][static_cast<size_t>(r.which)];
    if (rows.size() == clock_profile::most_clocks)
      return bad_profile(
          line, fmt::format("more than {} clocks of the {} of stage {}", clock_profile::most_clocks,
                            to_string(r.which), r.stage));
    rows.push_back(r.row);
    return {};
  }

  /// PCL-3
  status take_comment(std::string_view said, size_t line) {
    TROUPE_TRY(size, size_in(said, line));
    if (size && std::exchange(profile.of, size))
      return bad_profile(line, "what a micro-batch is stands there a second time");
    return {};
  }

  clock_profile profile;

 private:
  std::map<std::tuple<int, instruction, int>, size_t> lines_;
};

}  // namespace

std::string_view to_string(instruction which) {
  return which == instruction::forward ? "forward" : "backward";
}

std::string clock_profile::text() const {
  std::string out;
  if (of) out = fmt::format("{}{}{}{}\n", rows_mark, of->rows, tokens_mark, of->tokens);
  out += fmt::format("{}\n", profile_heading);
  for (size_t s = 0; s < stages.size(); ++s)
    for (const auto which : {instruction::forward, instruction::backward})
      for (const auto& r : stages[s][static_cast<size_t>(which)])
        out += fmt::format("{},{},{},{},{}\n", s, to_string(which), r.frequency_mhz, r.time_s,
                           r.energy_j);
  return out;
}

result<clock_profile> parse_profile(std::string_view text) {
  if (text.size() > clock_profile::most_bytes)
    return bad_profile(1, fmt::format("more than {} bytes in all", clock_profile::most_bytes));
  profile_reader reader;
  bool headed = false;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto said = without_blanks(text.substr(at, end - at));
    at = end + 1;
    ++line;
    if (said.empty()) continue;
    if (said.front() == '#') {
      TROUPE_CHECK(reader.take_comment(said, line));
      continue;
    }
    if (!std::exchange(headed, true)) {
      if (said != profile_heading)
        return bad_profile(line, fmt::format("the heading is \"{}\", not {}",
                                             said.substr(0, shown_bytes), profile_heading));
      continue;
    }
    TROUPE_TRY(row, row_of(comma_parts(said), line));
    TROUPE_CHECK(reader.take(row, line));
  }
  TROUPE_CHECK(check_whole(reader.profile, line));
  for (auto& stage : reader.profile.stages)
    for (auto& rows : stage)
      std::sort(rows.begin(), rows.end(), [](const clock_row& a, const clock_row& b) {
        return a.frequency_mhz > b.frequency_mhz;
      });
  return std::move(reader.profile);
}

}  // namespace troupe::power
