// `troupe limits`: every bound of the program; and the page of all messages.
#include <memory>

#include <fmt/format.h>

#include "apps/commands.hpp"
#include "apps/limits_table.hpp"
#include "apps/messages_page.hpp"

namespace troupe::apps {

void add_limits(shell& sh) {
  auto* verb = sh.app.add_subcommand("limits", "Print every bound of the program");
  struct limits_arguments {
    bool json = false, markdown = false, messages = false;
  };
  auto arguments = std::make_shared<limits_arguments>();
  verb->add_flag("--json", arguments->json, "As one JSON object");
  verb->add_flag("--markdown", arguments->markdown, "The page of the docs");
  verb->add_flag("--messages", arguments->messages,
                 "Instead the page of the docs on every message, who takes it and who answers");
  on_run(sh, verb, [arguments]() -> result<int> {
    if (arguments->messages) {
      TROUPE_CHECK(print(messages_markdown()));
      return 0;
    }
    if (arguments->json || arguments->markdown) {
      TROUPE_CHECK(print(arguments->json ? limits_json() : limits_markdown()));
      return 0;
    }
    std::string_view area;
    for (const auto& row : limit_rows()) {
      if (row.area != area) TROUPE_CHECK(print(fmt::format("{}\n", row.area)));
      area = row.area;
      TROUPE_CHECK(print(
          fmt::format("  {:<44} {:>16} {:<12} {}\n", row.what, row.value, row.unit, row.then)));
    }
    return 0;
  });
}

}  // namespace troupe::apps
