// The precompiled header of tests belongs to a target, and a target has a file.
#include "tests/pch.hpp"
