// Reads TOML: files with their includes, and text. Every leaf is looked up in the property table;
// what is not there is an error with its place and the nearest valid name.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "io/base/text.hpp"
#include "io/config/builder.hpp"
#include "io/config/toml_value.hpp"

namespace troupe::config::detail {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_file_bytes = 1 << 20;
constexpr size_t max_include_depth = 8;
constexpr size_t max_includes = 1024;

origin place(const std::string& file, const toml::source_region& region) {
  return {source_kind::file, file, region.begin.line, region.begin.column};
}

}  // namespace

std::optional<toml::table> parse_text(builder& into, std::string_view text,
                                      const std::string& file) {
  if (text.size() > max_file_bytes) {
    into.complain({source_kind::file, file}, "", "larger than 1 MiB");
    return std::nullopt;
  }
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    into.complain(place(file, e.source()), "", std::string(e.description()));
  } catch (const std::exception& e) {
    into.complain({source_kind::file, file}, "", e.what());
  }
  return std::nullopt;
}

std::optional<std::string> file_text(builder& into, const std::string& file, const origin& from) {
  auto fault = [&](const std::string& what, errc code) {
    // An included file is named in the text; the file itself is the place already.
    into.complain(from, "", from.line == 0 ? what : file + ": " + what, "", code);
    return std::nullopt;
  };
  std::error_code failed;
  auto kind = fs::status(file, failed).type();
  if (kind != fs::file_type::regular) {
    bool absent = kind == fs::file_type::not_found;
    return fault(absent ? "no such file" : "not a regular file", errc::not_found);
  }
  std::ifstream in(file, std::ios::binary);
  std::string text(max_file_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  if (in.bad() || (!in && !in.eof())) return fault("cannot be read", errc::io);
  if (text.size() > max_file_bytes) return fault("larger than 1 MiB", errc::bad_config);
  return text;
}

namespace {

/// Whether a file is one that `troupe power serve` reads: no section of a job is called so.
bool is_budget(const toml::table& file) {
  return file.contains("budget_w") || file.contains("child");
}

/// Walks one parsed document into the builder.
class walker {
 public:
  walker(builder& into, std::string file) : into_(into), file_(std::move(file)) {}

  void walk(const toml::table& table, const std::string& prefix) {
    for (auto&& [key, node] : table) {
      if (prefix.empty() && key.str() == "include") continue;  // include_reader has seen to it
      visit(key, node, prefix + std::string(key.str()));
    }
  }

 private:
  void visit(const toml::key& key, const toml::node& node, const std::string& name) {
    auto at = place(file_, key.source());
    bool dotted_word = key.str().find('.') != std::string_view::npos;  // "train.lr" in quotes
    if (const auto* p = dotted_word ? nullptr : find_property(name)) {
      auto value_at = place(file_, node.source());
      if (auto v = to_value(node))
        into_.assign(*p, *v, at, value_at);
      else
        into_.complain(value_at, name,
                       fmt::format("expected {}, got {}", accepts(*p), type_name(node)));
    } else if (const auto* tables = find_table_array(name)) {
      tables->read(into_, node, at, file_);
    } else if (!dotted_word && !section_about(name).empty()) {
      if (const auto* table = node.as_table())
        walk(*table, name + ".");
      else
        into_.complain(at, name, fmt::format("expected a section, got {}", type_name(node)),
                       fmt::format("write [{}] and its keys below", name));
    } else {
      unknown(node, name, at);
    }
  }

  void unknown(const toml::node& node, const std::string& name, const origin& at) {
    if (!node.is_table()) return into_.unknown_key(at, name);
    auto near = nearest(name, sections());
    into_.complain(at, name, "unknown section",
                   near.empty() ? "" : fmt::format("did you mean [{}]?", near));
  }

  builder& into_;
  std::string file_;
};

/// The paths an `include` key names, each with its place.
std::vector<std::pair<std::string, origin>> includes_of(builder& into, const toml::table& table,
                                                        const std::string& file) {
  std::vector<std::pair<std::string, origin>> paths;
  const auto* node = table.get("include");
  if (!node) return paths;
  auto add = [&](const toml::node& item) {
    auto at = place(file, item.source());
    if (const auto* path = item.as_string())
      paths.emplace_back(path->get(), at);
    else
      into.complain(at, "include", fmt::format("expected a path, got {}", type_name(item)));
  };
  if (const auto* list = node->as_array())
    for (const auto& item : *list) add(item);
  else
    add(*node);
  return paths;
}

/// Reads a file and what it includes, each file once (L-4).
class include_reader {
 public:
  explicit include_reader(builder& into) : into_(into) {}

  /// Reads the file and, the last first, the files it includes.
  void read(const std::string& file, const origin& from) {
    std::error_code failed;
    const auto canonical = fs::weakly_canonical(file, failed);
    if (std::find(open_.begin(), open_.end(), canonical) != open_.end())
      return into_.complain(from, "include", fmt::format("{} includes itself", file),
                            "break the cycle");
    if (!seen_.insert(canonical).second) return;  // L-4
    if (open_.size() > max_include_depth)
      return into_.complain(
          from, "include",
          fmt::format("files include each other deeper than {}", max_include_depth));
    auto text = file_text(into_, file, from);
    if (!text) return;
    auto table = parse_text(into_, *text, file);
    if (!table) return;
    if (open_.empty() && is_budget(*table))
      return into_.complain({source_kind::file, file}, "",
                            "a budget of `troupe power serve`, not a job",
                            fmt::format("`troupe power serve {}` divides it among jobs", file));
    auto includes = includes_of(into_, *table, file);
    strongest_first_.push_back({file, std::move(*table)});
    open_.push_back(canonical);
    std::reverse(includes.begin(), includes.end());
    for (const auto& [path, at] : includes) {
      if (++includes_ > max_includes) {
        if (includes_ == max_includes + 1)
          into_.complain(at, "include", fmt::format("more than {} includes in all", max_includes));
        break;
      }
      read((fs::path(file).parent_path() / path).lexically_normal().string(), at);
    }
    open_.pop_back();
  }

  /// Lays what was read over the builder, the weakest first.
  void lay() {
    for (auto it = strongest_first_.rbegin(); it != strongest_first_.rend(); ++it) {
      into_.next_layer();
      into_.add_file(it->name);
      walker(into_, it->name).walk(it->table, "");
    }
  }

 private:
  struct parsed_file {
    std::string name;
    toml::table table;
  };

  builder& into_;
  std::vector<fs::path> open_;  ///< canonical paths on the way down
  std::set<fs::path> seen_;     ///< canonical paths of all files so far
  std::vector<parsed_file> strongest_first_;
  size_t includes_ = 0;
};

}  // namespace

void read_text(builder& into, std::string_view text, const std::string& name) {
  auto table = parse_text(into, text, name);
  if (!table) return;
  if (const auto* include = table->get("include"))
    into.complain(place(name, include->source()), "include", "only a file may include others");
  walker(into, name).walk(*table, "");
}

void read_file(builder& into, const std::string& path) {
  include_reader files(into);
  files.read(path, {source_kind::file, path});
  files.lay();
}

}  // namespace troupe::config::detail
