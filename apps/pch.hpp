// The precompiled header of the program: the actors' and its command line.
//
// No file may rely on it: each includes what it needs.
#pragma once

#include <CLI/CLI.hpp>

#include "actors/pch.hpp"
