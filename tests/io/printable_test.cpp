// What others say, made fit to be shown (io/base/printable.hpp).
#include "io/base/printable.hpp"

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("printable: foreign text stays on one line and shows what it hides (PRT-1)") {
  CHECK(printable("plain \xc3\xa9 \xe6\xbc\xa2 \"text\"") ==
        "plain \xc3\xa9 \xe6\xbc\xa2 \"text\"");
  CHECK(printable("a\nb\tc\r") == "a\\nb\\tc\\r");
  CHECK(printable("\x1b[2J\x7f") == "\\u001b[2J\\u007f");
  CHECK(printable(std::string_view("\0", 1)) == "\\u0000");
  CHECK(printable("\xc2\x9b") == "\\u009b");                           // C1's CSI
  CHECK(printable("\xe2\x80\xae \xe2\x81\xa6") == "\\u202e \\u2066");  // right to left
  CHECK(printable("\xd8\x9c") == "\\u061c");
  CHECK(printable("\xe2\x80\xa8") == "\\u2028");                       // a line separator
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");                        // no UTF-8
  CHECK(printable("\xc0\x80 \xed\xa0\x80") == "\\xc0\\x80 \\xed\\xa0\\x80");
  CHECK(printable("") == "");
}

TEST_CASE("printable: what is too long is cut between characters") {
  CHECK(printable("xyz", 3) == "xyz");
  CHECK(printable("wxyz", 3) == "...");
  CHECK(printable(std::string(100, 'x'), 10) == "xxxxxxx...");
  CHECK(printable("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 4) == "\xc3\xa9...");
  CHECK(printable("ab\x1b\x1b", 9) == "ab...");  // nor within an escape
  CHECK(printable(std::string(10'000, '\n')).size() <= printable_limit);
}

TEST_CASE("printable: what passed once passes unchanged (PRT-2)") {
  for (const std::string& text :
       {std::string("a\n\x1b[0m\\n"), std::string(5000, '\x01'), std::string("\xff\"\\")})
    CHECK(printable(printable(text, 40), 40) == printable(text, 40));
}

TEST_CASE("printable: lines and columns of our own texts stay, what is in them does not (PRT-3)") {
  CHECK(printable_lines("a\tb\nc\x1b[1m\r\n") == "a\tb\nc\\u001b[1m\\r\n");
  CHECK(printable_lines("{\"a\":\"\x7f\"}\n") == "{\"a\":\"\\u007f\"}\n");
  CHECK(printable_lines(std::string(10'000, 'x')).size() == 10'000);
}
