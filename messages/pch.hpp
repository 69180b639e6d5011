// The precompiled header of every target that speaks CAF: what is large, foreign and never changes.
//
// Use it by troupe_use_caf(target) in CMake. No file may rely on it: each includes what it needs.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
