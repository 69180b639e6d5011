// The precompiled header of the actors: messages/pch.hpp and our own handles, which every actor
// names and which take seconds to parse.
//
// No file may rely on it: each includes what it needs.
#pragma once

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "actors/base/traced.hpp"
#include "messages/actors.hpp"
#include "messages/pch.hpp"
