// What the program's precompiled header holds beyond messages/pch.hpp: large, foreign, unchanging.
//
// No file may rely on it: each includes what it needs.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
