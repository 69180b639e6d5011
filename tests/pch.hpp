// The precompiled header of the tests that speak CAF.
//
// No file may rely on it: each includes what it needs.
#pragma once

#include <doctest/doctest.h>

#include "actors/pch.hpp"
