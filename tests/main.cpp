// The main function of every test executable: doctest's own, nothing more.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
