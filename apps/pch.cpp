// The file with which the precompiled header pch.hpp is compiled.
