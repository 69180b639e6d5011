// How a row of the property table is written; only the table and its reader include this.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>

#include "io/config/drills.hpp"
#include "io/config/properties.hpp"

namespace troupe::config::detail {

template <size_t Count>
constexpr auto after_auto(const std::array<std::string_view, Count>& names) {
  std::array<std::string_view, Count + 1> out{"auto"};
  std::copy(names.begin(), names.end(), out.begin() + 1);
  return out;
}

/// The words of a choice, in the order of its values.
template <class Choice>
inline constexpr std::array<std::string_view, 0> words{};
template <>
inline constexpr std::array<std::string_view, 3> words<launch_mode>{"local", "ssh", "external"};
template <>
inline constexpr std::array<std::string_view, 3> words<device_kind>{"auto", "host", "cuda"};
template <>
inline constexpr std::array<std::string_view, 3> words<weight_init>{"auto", "random", "pretrained"};
template <>
inline constexpr auto words<or_auto<model_family>> = after_auto(family_names);
template <>
inline constexpr auto words<or_auto<block_form>> = after_auto(block_names);
template <>
inline constexpr std::array<std::string_view, 3> words<or_auto<bool>>{"auto", "no", "yes"};
template <>
inline constexpr std::array<std::string_view, 2> words<compute_dtype>{"f32", "bf16"};
template <>
inline constexpr std::array<std::string_view, 5> words<data_format>{"auto", "text", "json", "llmc",
                                                                    "nanogpt"};
template <>
inline constexpr std::array<std::string_view, 2> words<optimizer_kind>{"adamw", "lamb"};
template <>
inline constexpr std::array<std::string_view, 4> words<lr_schedule>{"constant", "linear", "cosine",
                                                                    "wsd"};
template <>
inline constexpr std::array<std::string_view, 2> words<decay_scope>{"matrices", "all"};
template <>
inline constexpr std::array<std::string_view, 2> words<pipeline_schedule>{"1f1b", "by_layer"};
template <>
inline constexpr std::array<std::string_view, 2> words<stage_placement>{"even", "measured"};
template <>
inline constexpr std::array<std::string_view, 3> words<when_busy>{"block", "skip", "stretch"};
template <>
inline constexpr std::array<std::string_view, 4> words<clip_way>{"auto", "speculate", "hold",
                                                                 "twice"};
template <>
inline constexpr std::array<std::string_view, 3> words<weights_choice>{"auto", "stored", "derived"};
template <>
inline constexpr std::array<std::string_view, 2> words<liveness_detector>{"fixed", "phi"};
template <>
inline constexpr std::array<std::string_view, 3> words<probe_depth>{"off", "quick", "full"};
template <>
inline constexpr std::array<std::string_view, 2> words<slack_source>{"off", "plan"};
template <>
inline constexpr auto words<health::finding_name> = [] {
  std::array<std::string_view, health::finding_table.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = health::finding_table[i].name;
  return names;
}();
template <>
inline constexpr auto words<recovery_action> = recovery_action_words;
template <>
inline constexpr auto words<spike_action> = spike_action_words;
template <>
inline constexpr auto words<drill_kind> = drill_words;
template <>
inline constexpr std::array<std::string_view, 3> words<log_format>{"auto", "plain", "json"};

template <class T>
constexpr value_kind kind_of() {
  if constexpr (std::is_same_v<T, int64_t>)
    return value_kind::integer;
  else if constexpr (std::is_same_v<T, double>)
    return value_kind::real;
  else if constexpr (std::is_same_v<T, bool>)
    return value_kind::boolean;
  else if constexpr (std::is_same_v<T, std::string>)
    return value_kind::text;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return value_kind::texts;
  else {
    static_assert(!words<T>.empty() && sizeof(T) == 1, "a key holds a kind above, or a choice");
    return value_kind::choice;
  }
}

/// A chain of member pointers applied to an object.
template <class Object>
constexpr auto& member_of(Object& object) {
  return object;
}
template <class Object, class First, class... Rest>
constexpr auto& member_of(Object& object, First first, Rest... rest) {
  return member_of(object.*first, rest...);
}

/// One row: row<job, &job::train, &train_section::lr>("train.lr", "about", limits).
template <class Object, auto... Path>
constexpr property row(std::string_view key, std::string_view about, bounds limits = {}) {
  using type = std::remove_reference_t<decltype(member_of(std::declval<Object&>(), Path...))>;
  std::span<const std::string_view> choices;
  if constexpr (kind_of<type>() == value_kind::choice) choices = words<type>;
  return {key, about, kind_of<type>(), limits, choices, [](void* object) -> void* {
            return &member_of(*static_cast<Object*>(object), Path...);
          }};
}

constexpr bounds at_least(double min) {
  return {.min = min};
}
constexpr bounds above(double min) {
  return {.min = min, .above_min = true};
}
constexpr bounds within(double min, double max) {
  return {.min = min, .max = max};
}
constexpr bounds below(double min, double max) {
  return {.min = min, .max = max, .below_max = true};
}

/// Of keys that are times.
inline constexpr double week_s = 7 * 24 * 3600;

/// Every row of a job, of one [[cluster.node]], of one [[data.source]], of one [[recovery.rule]],
/// of one [[health.log_rule]], and of one [[inject]] (table.cpp, list_tables.cpp).
std::span<const property> job_table();
std::span<const property> node_table();
std::span<const property> source_table();
std::span<const property> rule_table();
std::span<const property> log_rule_table();
std::span<const property> drill_table();

}  // namespace troupe::config::detail
