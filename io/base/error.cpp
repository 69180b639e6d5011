// Names, exit codes and texts of the failures.
#include "io/base/error.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace troupe {

namespace {

struct code_facts {
  errc code;
  std::string_view name;
  int exit;
};

constexpr std::array codes = {
    code_facts{errc::none, "none", 0},
    code_facts{errc::usage, "usage", 64},
    code_facts{errc::bad_data, "bad_data", 65},
    code_facts{errc::not_found, "not_found", 66},
    code_facts{errc::unavailable, "unavailable", 69},
    code_facts{errc::version_mismatch, "version_mismatch", 69},
    code_facts{errc::bug, "bug", 70},
    code_facts{errc::no_memory, "no_memory", 70},
    code_facts{errc::io, "io", 74},
    code_facts{errc::timeout, "timeout", 75},
    code_facts{errc::cancelled, "cancelled", 130},
    code_facts{errc::permission, "permission", 77},
    code_facts{errc::bad_config, "bad_config", 78},
    code_facts{errc::training, "training", 1},
};

const code_facts& facts(errc code) noexcept {
  for (const auto& f : codes)
    if (f.code == code) return f;
  return codes[static_cast<size_t>(errc::bug)];
}

}  // namespace

std::string_view to_string(errc code) noexcept {
  return facts(code).name;
}

int exit_code(errc code) noexcept {
  return facts(code).exit;
}

error error::within(std::string_view context) const {
  return {code, fmt::format("{}: {}", context, message), hint, kind};
}

error error::system(std::string_view what, int errno_value) {
  auto code = errc::io;
  if (errno_value == ENOENT) code = errc::not_found;
  if (errno_value == EACCES || errno_value == EPERM) code = errc::permission;
  if (errno_value == ENOMEM) code = errc::no_memory;
  std::string hint;
  if (errno_value == ENOSPC) hint = "free some disk space, or point the path at another disk";
  const char* kind = ::strerrorname_np(errno_value);
  return {code, fmt::format("{}: {}", what, std::strerror(errno_value)), std::move(hint),
          kind != nullptr ? kind : ""};
}

std::string render(const error& e) {
  return e.hint.empty() ? e.message : fmt::format("{}\nhint: {}", e.message, e.hint);
}

}  // namespace troupe
