// How far steps are from a roofline of probes: a layer reaches less than a probe's large products.
// Chosen widths. Steps on two virtual cores were held against the widest (docs/predict.md, "Far
// beyond the own probes"); no other machine's were.
#pragma once

namespace troupe::gpu::predict {

/// Times the roofline: hardly less, as expected, and hardly more. What takes more lastingly is set
/// up wrong (actors/predict/probed_limit_policy.hpp).
inline constexpr double roofline_least = 0.9, roofline_usual = 1.5, roofline_most = 4;
/// Either way, of the logarithm, where what one machine does is carried over to another by what the
/// probes of both differ.
inline constexpr double machines_differ = 0.3;

}  // namespace troupe::gpu::predict
