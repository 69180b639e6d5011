// Man pages, made from the table of verbs and options that parses the command line: a page for the
// program, and one for each of its verbs with the verbs below it.
#pragma once

#include <filesystem>
#include <string>

#include "apps/command_line.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// "troupe", "troupe-ckpt": the name of the page of the program, or of a verb of it.
std::string page_name(const command& app, const command* verb);

/// The page in roff (man(7)); of the program where `verb` is nullptr.
std::string man_page(const command& app, const command* verb, const std::string& version);

/// Writes all pages as DIR/NAME.1; the folder is made. Errors: io.
status write_man_pages(const command& app, const std::string& version,
                       const std::filesystem::path& dir);

}  // namespace troupe::apps
