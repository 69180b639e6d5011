// By glob(3), and by walking.
#include "io/data/data_files.hpp"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string>

#include "io/data/data_kind.hpp"
#include "io/data/token_file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

bool is_pattern(const fs::path& name) {
  return name.native().find_first_of("*?[") != std::string::npos;
}

/// The files that have the pattern's form, by path. Error: no_memory.
result<std::vector<fs::path>> of_form(const fs::path& pattern) {
  struct found : glob_t {
    found() : glob_t{} {}
    ~found() { globfree(this); }
  } list;
  const int code = glob(pattern.c_str(), 0, nullptr, &list);
  if (code == GLOB_NOSPACE) return error{errc::no_memory, "no memory for " + pattern.string()};
  std::vector<fs::path> out;
  std::error_code ignored;
  for (size_t i = 0; code == 0 && i < list.gl_pathc; ++i)
    if (fs::path path(list.gl_pathv[i]); !fs::is_directory(path, ignored))
      out.push_back(std::move(path));
  std::sort(out.begin(), out.end());
  return out;
}

/// The folder before a pattern's first part that is one.
fs::path folder_before(const fs::path& pattern) {
  fs::path folder = pattern.is_absolute() ? fs::path() : fs::path(".");
  for (const auto& part : pattern) {
    if (is_pattern(part)) break;
    folder /= part;
  }
  return folder;
}

/// glob(3) passes over a folder that it may not read.
status check_readable(const fs::path& pattern) {
  const auto folder = folder_before(pattern);
  std::error_code code;
  const fs::directory_iterator first(folder, code);
  if (code != std::errc::permission_denied) return {};
  return error::system("open folder " + folder.lexically_normal().string(), code.value());
}

result<data_files> matches(const fs::path& pattern) {
  data_files out;
  TROUPE_TRY(files, of_form(pattern));
  out.files = std::move(files);
  if (!out.files.empty()) return out;
  TROUPE_TRY(indexes, of_form(fs::path(pattern) += ".idx"));  // DFL-3
  std::copy_if(indexes.begin(), indexes.end(), std::back_inserter(out.files),
               [](const fs::path& index) { return !megatron_index_of(index).empty(); });
  if (!out.files.empty()) return out;
  TROUPE_CHECK(check_readable(pattern));
  return no_file_matches(pattern.string());  // DFL-2
}

/// What to do about a name that nothing has.
std::string_view hint_of_absent(const fs::path& name) {
  std::error_code ignored;
  if (fs::is_symlink(name, ignored)) return "it is a link to what is not there";
  if (name.native().find("://") != std::string::npos)
    return "files of this machine are read: fetch it first";
  if (name.native().starts_with('~'))
    return "\"~\" stands for nothing in a file: write the folder's whole name";
  if (name.is_relative()) return "names count from the folder in which the command is given";
  return {};
}

result<data_files> in_folder(const fs::path& folder) {
  std::error_code code;
  data_files out;
  out.of_folder = true;
  fs::recursive_directory_iterator at(folder, code);
  if (code) return error::system("open folder " + folder.string(), code.value());
  while (at != fs::recursive_directory_iterator()) {
    std::error_code ignored;
    if (at->path().filename().native().starts_with('.'))
      at.disable_recursion_pending();
    else if (at->is_regular_file(ignored))
      out.files.push_back(at->path());
    at.increment(code);
    if (code) return error::system("read folder " + folder.string(), code.value());
  }
  std::sort(out.files.begin(), out.files.end());
  return out;
}

/// Whether a name has the word, apart from other letters.
bool has_word(std::string name, std::string_view word) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto letter = [&](size_t i) {
    return i < name.size() && std::isalpha(static_cast<unsigned char>(name[i])) != 0;
  };
  for (auto at = name.find(word); at != name.npos; at = name.find(word, at + 1))
    if ((at == 0 || !letter(at - 1)) && !letter(at + word.size())) return true;
  return false;
}

bool is_folder_of_tokens(const std::vector<fs::path>& files) {
  bool marked = false;
  uint64_t raw_bytes = 0, text_bytes = 0;
  for (const auto& file : files) {
    const auto type = data_type_of(file);
    if (!type) continue;
    std::error_code ignored;
    const auto size = fs::file_size(file, ignored);
    marked |= type->kind == data_kind::llmc_tokens || type->kind == data_kind::megatron;
    if (type->kind == data_kind::raw_tokens) raw_bytes += size;
    if (is_text(type->kind) || type->kind == data_kind::json) text_bytes += size;
  }
  return marked || raw_bytes > text_bytes;
}

}  // namespace

result<data_files> data_files_of(const fs::path& name) {
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) return in_folder(name);
  if (is_pattern(name) && !fs::exists(name, ignored)) return matches(name);
  return data_files{{name}, false};
}

error of_data_name(const fs::path& name, error why) {
  if (!why.hint.empty()) return why;
  std::error_code ignored;
  const auto kind = fs::status(name, ignored).type();
  if (why.code == errc::not_found)
    why.hint = hint_of_absent(name);
  else if (kind == fs::file_type::fifo || kind == fs::file_type::character ||
           kind == fs::file_type::socket || kind == fs::file_type::block)
    why.hint = "write what it gives into a file: data is read more than once, and may be packed";
  return why;
}

status check_one_split(const fs::path& folder, const std::vector<fs::path>& files) {
  constexpr std::array<std::string_view, 4> measured{"val", "valid", "validation", "test"};
  const auto names = [&](const fs::path& f, std::string_view word) {
    return has_word(f.lexically_relative(folder).string(), word);
  };
  const auto train = std::find_if(files.begin(), files.end(),
                                  [&](const fs::path& f) { return names(f, "train"); });
  const auto other = std::find_if(files.begin(), files.end(), [&](const fs::path& f) {
    return !names(f, "train") && std::any_of(measured.begin(), measured.end(),
                                             [&](std::string_view word) { return names(f, word); });
  });
  if (train == files.end() || other == files.end()) return {};
  return several_splits(folder.string(), train->lexically_relative(folder).string(),
                        other->lexically_relative(folder).string());
}

fs::path megatron_index_of(const fs::path& name) {
  const auto end = name.extension();
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) return {};
  auto index = name;
  if (end == ".bin" || end == ".idx")
    index.replace_extension(".idx");
  else
    index += ".idx";
  const auto head = head_of(index);
  return head && head->starts_with("MMIDIDX") ? index : fs::path();
}

bool names_tokens(const fs::path& name) {
  if (!megatron_index_of(name).empty()) return true;
  auto found = data_files_of(name);
  if (!found) return name.extension() == ".bin";
  if (!found->of_folder)
    return std::all_of(found->files.begin(), found->files.end(), [](const fs::path& file) {
      return looks_like_token_file(file) || file.extension() == ".bin" ||
             !megatron_index_of(file).empty();
    });
  return is_folder_of_tokens(found->files);
}

}  // namespace troupe::io
