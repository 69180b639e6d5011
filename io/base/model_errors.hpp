// What model_config::check() finds. Beside model_config.hpp, which kernels read: nvcc's front end
// cannot check a text of fmt.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/base/error_kind.hpp"

namespace troupe {

/// Numbers that make no model.
inline constexpr error_kind<std::string_view, int64_t, int64_t> model_size_wrong{
    "model_size_wrong", errc::bad_config, "impossible model: {} is {}, expected 1 to {}"};
inline constexpr error_kind<double, double> model_too_large{
    "model_too_large", errc::bad_config,
    "impossible model: it has about {:.2g} parameters, expected at most {:.2g}"};
inline constexpr error_kind<int64_t, int64_t> heads_not_shared{
    "heads_not_shared", errc::bad_config,
    "impossible model: {} heads cannot share {} key/value heads evenly"};
inline constexpr error_kind<int64_t, int64_t, int64_t> heads_do_not_fill{
    "heads_do_not_fill", errc::bad_config,
    "impossible model: {} heads of {} do not make hidden {}"};
inline constexpr error_kind<int64_t> head_width_odd{
    "head_width_odd", errc::bad_config, "impossible model: head width {} is odd; RoPE turns pairs"};
inline constexpr error_kind<std::string_view> model_number_negative{
    "model_number_negative", errc::bad_config, "impossible model: {} is negative"};

}  // namespace troupe
