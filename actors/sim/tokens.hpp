// What simulated clusters train on: a real file of tokens, read by the real loaders.
#pragma once

#include <filesystem>

#include "io/base/result.hpp"

namespace troupe::sim {

/// The file that all simulations of this process read: 4,096 tokens below 256, llm.c's format. It
/// has no name that could be left behind. Errors: io.
result<std::filesystem::path> simulated_tokens();

}  // namespace troupe::sim
