// The precompiled header of the program's verbs and of all tests that speak CAF.
//
// The command line is not in it: CLI11's inline functions have templates that every file would
// instantiate again, 4 seconds each. No file may rely on it: each includes what it needs.
#pragma once

#include "actors/pch.hpp"
