// Marks, claims, and removal by descriptors: see owned.hpp.
#include "io/folder/owned.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr int mark_version = 1;
constexpr int deepest_scratch = 32;  ///< folders within folders
constexpr std::array kind_names = {"output", "checkpoint", "model", "scratch"};
constexpr std::string_view digits = "0123456789";

/// Whether `name` is `pattern`, in which each '#' stands for one digit or more.
bool fits(std::string_view name, std::string_view pattern) {
  if (name == pattern) return true;
  while (!pattern.empty()) {
    if (pattern.front() == '#') {
      const auto length = std::min(name.find_first_not_of(digits), name.size());
      if (length == 0) return false;
      name.remove_prefix(length);
    } else if (name.empty() || name.front() != pattern.front()) {
      return false;
    } else {
      name.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  return name.empty();
}

/// The mark, or its temporary: all there is in a folder whose maker was killed at its first write.
bool is_mark(std::string_view name) {
  return name == mark_file || fits(name, fmt::format("{}.tmp-#-#", mark_file));
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

// -- descriptors ----------------------------------------------------------------------------------

struct identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const identity&) const = default;
};

identity identity_of(const struct stat& facts) {
  return {facts.st_dev, facts.st_ino};
}

std::optional<identity> identity_of(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return std::nullopt;
  return identity_of(facts);
}

/// What no removal may touch (OWN-3): every folder from here up to the root.
void add_with_parents(std::vector<identity>& into, const char* from) {
  unique_fd at(::open(from, O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int depth = 0; at && depth < 4096; ++depth) {
    const auto here = identity_of(at.get());
    if (!here || (!into.empty() && into.back() == *here)) return;  // the root is its own parent
    into.push_back(*here);
    at.reset(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
}

std::vector<identity> untouchable() {
  std::vector<identity> out;
  add_with_parents(out, ".");
  if (const char* home = std::getenv("HOME"); home && *home == '/') add_with_parents(out, home);
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::array<char, 4096> room{};
  if (::getpwuid_r(::getuid(), &entry, room.data(), room.size(), &found) == 0 && found)
    add_with_parents(out, found->pw_dir);
  return out;
}

bool is_mount_point(int fd, dev_t parent_device) {
  struct statx facts {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &facts) == 0 &&
      (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
    return true;
  const auto here = identity_of(fd);
  return !here || here->device != parent_device;
}

/// A folder and the one that it lies in, each opened once (OWN-2).
struct opened_folder {
  fs::path path;
  std::string leaf;
  unique_fd parent, self;

  static result<opened_folder> open(const fs::path& folder) {
    opened_folder out;
    std::error_code code;
    out.path = fs::absolute(folder, code).lexically_normal();
    if (!out.path.has_filename()) out.path = out.path.parent_path();
    out.leaf = out.path.filename().string();
    if (code || !is_plain_name(out.leaf)) return not_ours(folder.string() + " is never removed");
    out.parent.reset(::open(out.path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!out.parent) return error::system("open " + out.path.parent_path().string(), errno);
    out.self.reset(::openat(out.parent.get(), out.leaf.c_str(),
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!out.self && (errno == ELOOP || errno == ENOTDIR))
      return not_ours(out.path.string() + " is not a folder of this program");
    if (!out.self) return error::system("open " + out.path.string(), errno);
    return out;
  }

  /// OWN-2, OWN-3.
  status may_be_removed() const {
    const auto above = identity_of(parent.get()), here = identity_of(self.get());
    if (!above || !here) return error::system("look at " + path.string(), errno);
    if (is_mount_point(self.get(), above->device))
      return not_ours(path.string() + " is a mount point");
    const auto never = untouchable();
    if (std::find(never.begin(), never.end(), *here) != never.end())
      return not_ours(path.string() +
                      " is the home folder, the working folder, or a folder above one of them");
    return {};
  }
};

struct directory_closer {
  void operator()(DIR* d) const { ::closedir(d); }
};

/// Everything in a folder but "." and "..".
result<std::vector<folder_item>> list_of(int folder, const fs::path& path) {
  const auto failed = [&] { return error::system("read the folder " + path.string(), errno); };
  unique_fd again(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return failed();
  std::unique_ptr<DIR, directory_closer> d(::fdopendir(again.get()));
  if (!d) return failed();
  static_cast<void>(again.release());
  std::vector<folder_item> out;
  for (;;) {
    errno = 0;
    const auto* e = ::readdir(d.get());
    if (e == nullptr && errno != 0) return failed();
    if (e == nullptr) return out;
    const std::string name = e->d_name;
    struct stat facts {};
    if (name == "." || name == "..") continue;
    if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // gone meanwhile
      return failed();
    }
    out.push_back({name, S_ISREG(facts.st_mode)   ? folder_item::type::file
                         : S_ISDIR(facts.st_mode) ? folder_item::type::folder
                                                  : folder_item::type::other});
  }
}

/// The mark in an open folder.
result<claim> mark_in(int folder, const fs::path& path) {
  const auto where = path / mark_file;
  unique_fd fd(::openat(folder, mark_file.data(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return error::system("open " + where.string(), errno);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return error::system("stat " + where.string(), errno);
  if (!S_ISREG(facts.st_mode) || facts.st_size > static_cast<off_t>(max_mark_bytes))
    return error{errc::bad_data, where.string() + " is not a mark of this program"};
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  const auto n = ::pread(fd.get(), text.data(), text.size(), 0);
  if (n < 0) return error::system("read " + where.string(), errno);
  text.resize(static_cast<size_t>(n));
  auto mark = parse_mark(text);
  return mark ? mark : result<claim>(mark.error().within(where.string()));
}

// -- removal --------------------------------------------------------------------------------------

status remove_name(int folder, const std::string& name, int flags, const fs::path& path) {
  if (::unlinkat(folder, name.c_str(), flags) == 0 || errno == ENOENT) return {};
  return error::system("remove " + (path / name).string(), errno);
}

/// All that is in a scratch folder, but for its mark (OWN-2).
status empty_tree(int folder, const fs::path& path, int depth);

status remove_tree(int parent, const std::string& name, const fs::path& path, int depth) {
  unique_fd self(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!self && (errno == ENOTDIR || errno == ELOOP)) return remove_name(parent, name, 0, path);
  if (!self && errno == ENOENT) return {};
  if (!self) return error::system("open " + (path / name).string(), errno);
  const auto above = identity_of(parent);
  if (depth > deepest_scratch || !above || is_mount_point(self.get(), above->device))
    return not_ours((path / name).string() + " is a mount point, or too deep");
  TROUPE_CHECK(empty_tree(self.get(), path / name, depth));
  return remove_name(parent, name, AT_REMOVEDIR, path);
}

status empty_tree(int folder, const fs::path& path, int depth) {
  TROUPE_TRY(all, list_of(folder, path));
  for (const auto& c : all)
    if (depth > 0 || c.name != mark_file)
      TROUPE_CHECK(remove_tree(folder, c.name, path, depth + 1));
  return {};
}

/// OWN-4. What was put into the folder meanwhile finds the mark again.
status remove_emptied(const opened_folder& f, const claim& ours) {
  const auto here = identity_of(f.self.get());
  struct stat named {};
  if (::fstatat(f.parent.get(), f.leaf.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 || !here ||
      identity_of(named) != *here)
    return not_ours(f.path.string() + " was replaced while it was removed");
  if (::unlinkat(f.parent.get(), f.leaf.c_str(), AT_REMOVEDIR) == 0) return {};
  const int failure = errno;
  unique_fd mark(::openat(f.self.get(), mark_file.data(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (mark) static_cast<void>(write_all(mark.get(), as_bytes(mark_text(ours)), mark_file));
  return error::system("remove the folder " + f.path.string(), failure);
}

status remove_opened(const opened_folder& f, const claim& ours) {
  TROUPE_CHECK(f.may_be_removed());
  TROUPE_TRY(all, list_of(f.self.get(), f.path));
  auto order = removal_order(all, ours);
  if (!order) return order.error().within(f.path.string());
  for (size_t i = 0; i < order->size(); ++i) {
    const auto& name = (*order)[i];
    if (begins_to_forget(*order, i, ours) && ::fsync(f.self.get()) != 0)  // OWN-4
      return error::system("fsync folder " + f.path.string(), errno);
    if (ours.kind == folder_kind::scratch && name != mark_file)
      TROUPE_CHECK(remove_tree(f.self.get(), name, f.path, 1));
    else
      TROUPE_CHECK(remove_name(f.self.get(), name, 0, f.path));
  }
  return remove_emptied(f, ours);
}

/// Writes a mark into a folder that is there.
status write_mark(const fs::path& folder, const claim& as) {
  const auto there = read_mark(folder);
  if (there && there->kind != as.kind)
    return not_ours(fmt::format("{} is marked as {}, not {}", folder.string(),
                                to_string(there->kind), to_string(as.kind)));
  if (there && *there == as) return {};
  if (!there && there.error().code != errc::not_found) return there.error();
  return write_atomic(folder / mark_file, mark_text(as));
}

}  // namespace

std::string_view to_string(folder_kind kind) {
  return kind_names.at(static_cast<size_t>(kind));
}

bool claim::names(std::string_view name) const {
  if (kind == folder_kind::scratch || is_mark(name)) return true;
  return std::any_of(files.begin(), files.end(), [&](const std::string& pattern) {
    return fits(name, pattern) || fits(name, pattern + ".tmp-#-#");
  });
}

std::string mark_text(const claim& c) {
  nlohmann::ordered_json j;
  j["troupe-owned"] = mark_version;
  j["kind"] = to_string(c.kind);
  if (!c.job.empty()) j["job"] = c.job;
  if (!c.files.empty()) j["files"] = c.files;
  if (!c.of.empty()) j["of"] = c.of;
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

result<claim> parse_mark(std::string_view text) {
  const auto wrong = [](const char* what) { return error{errc::bad_data, what}; };
  if (text.size() > max_mark_bytes) return wrong("it is too long");
  const auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("troupe-owned"))
    return wrong("it is not a mark of this program");
  if (j["troupe-owned"] != mark_version)
    return error{errc::version_mismatch, "the mark is of another version"};
  if (!j.contains("kind") || !j["kind"].is_string()) return wrong("the mark names no kind");
  claim out;
  const auto kind = j["kind"].get<std::string>();
  const auto known = std::find(kind_names.begin(), kind_names.end(), kind);
  if (known == kind_names.end()) return wrong("the mark is of an unknown kind");
  out.kind = static_cast<folder_kind>(known - kind_names.begin());
  if (j.contains("job")) {
    if (!j["job"].is_string()) return wrong("the mark's job is not a text");
    out.job = j["job"].get<std::string>();
  }
  if (j.contains("of")) {
    if (!j["of"].is_string()) return wrong("what the mark is of is not a text");
    out.of = j["of"].get<std::string>();
  }
  if (!j.contains("files")) return out;
  if (!j["files"].is_array()) return wrong("the mark's files are not a list");
  for (const auto& name : j["files"]) {
    if (!name.is_string() || !is_plain_name(name.get<std::string>()))
      return wrong("invalid file name in the mark");
    out.files.push_back(name.get<std::string>());
  }
  return out;
}

status make_owned(const fs::path& folder, const claim& as) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return error::system("make the folder " + folder.string(), errno);
  TROUPE_TRY(f, opened_folder::open(folder));
  TROUPE_TRY(all, list_of(f.self.get(), f.path));
  const bool marked =
      std::any_of(all.begin(), all.end(), [](const folder_item& c) { return c.name == mark_file; });
  const auto other =
      std::find_if(all.begin(), all.end(), [](const folder_item& c) { return !is_mark(c.name); });
  if (!marked && other != all.end())
    return not_ours(
        fmt::format("{} holds what this program did not make ({})", folder.string(), other->name));
  TROUPE_CHECK(write_mark(f.path, as));
  return fsync_directory(f.path.parent_path());
}

status mark_output(const fs::path& folder, const std::string& job) {
  return write_mark(folder, {folder_kind::output, job, {}});
}

result<claim> read_mark(const fs::path& folder) {
  unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return error::system("open the folder " + folder.string(), errno);
  return mark_in(fd.get(), folder);
}

bool is_owned(const fs::path& folder, folder_kind kind) {
  const auto mark = read_mark(folder);
  return mark && mark->kind == kind;
}

result<std::vector<std::string>> removal_order(std::span<const folder_item> all,
                                               const claim& ours) {
  if (ours.kind == folder_kind::output) return not_ours("a job's output is never removed");
  std::vector<std::string> order;
  bool marked = false;
  for (const auto& c : all) {
    const bool plain = c.what == folder_item::type::file || ours.kind == folder_kind::scratch;
    if (!plain || !ours.names(c.name))  // OWN-1
      return not_ours(fmt::format("it holds {}, which this program did not make", c.name));
    if (c.name == mark_file)
      marked = true;
    else
      order.push_back(c.name);
  }
  // By the claim's order where it has one: what the claim was read from is named last in it.
  const auto rank = [&](const std::string& name) {
    return std::find(ours.files.begin(), ours.files.end(), name) - ours.files.begin();
  };
  std::sort(order.begin(), order.end());
  if (!ours.files.empty())
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      const auto listed = static_cast<std::ptrdiff_t>(ours.files.size());
      const auto x = rank(a), y = rank(b);
      return (x == listed ? -1 : x) < (y == listed ? -1 : y);
    });
  if (marked) order.emplace_back(mark_file);  // OWN-4
  return order;
}

bool begins_to_forget(std::span<const std::string> order, size_t place, const claim& ours) {
  const auto tells = [&](const std::string& name) {
    return name == mark_file || (!ours.told_by.empty() && name == ours.told_by);
  };
  const auto first = std::find_if(order.begin(), order.end(), tells);
  return place > 0 && first - order.begin() == static_cast<std::ptrdiff_t>(place);
}

status check_claimed(const fs::path& folder, const claim& ours) {
  TROUPE_TRY(f, opened_folder::open(folder));
  TROUPE_CHECK(f.may_be_removed());
  TROUPE_TRY(all, list_of(f.self.get(), f.path));
  auto order = removal_order(all, ours);
  return order ? status{} : status(order.error().within(f.path.string()));
}

status remove_claimed(const fs::path& folder, const claim& ours) {
  TROUPE_TRY(f, opened_folder::open(folder));
  return remove_opened(f, ours);
}

status remove_owned(const fs::path& folder, folder_kind kind) {
  TROUPE_TRY(f, opened_folder::open(folder));
  auto mark = mark_in(f.self.get(), f.path);
  if (!mark && mark.error().code == errc::not_found)  // if it is empty: no kind but by a mark
    return remove_opened(f, {folder_kind::checkpoint, {}, {}});
  if (!mark) return mark.error();
  if (mark->kind != kind)
    return not_ours(fmt::format("{} is marked as {}, not {}", folder.string(),
                                to_string(mark->kind), to_string(kind)));
  return remove_opened(f, *mark);
}

status remove_empty(const fs::path& folder) {
  TROUPE_TRY(f, opened_folder::open(folder));
  return remove_opened(f, {folder_kind::checkpoint, {}, {}});
}

status remove_from_scratch(const fs::path& folder, const std::string& name) {
  if (!is_plain_name(name) || name == mark_file)
    return not_ours((folder / name).string() + " is not a name in a temporary folder");
  TROUPE_TRY(f, opened_folder::open(folder));
  TROUPE_TRY(mark, mark_in(f.self.get(), f.path));
  if (mark.kind != folder_kind::scratch)
    return not_ours(folder.string() + " is not a temporary folder of this program");
  return remove_tree(f.self.get(), name, f.path, 1);
}

status remove_own_file(const fs::path& name, int fd) {
  struct stat named {};
  const auto ours = identity_of(fd);
  if (!ours) return error::system("look at " + name.string(), errno);
  if (::lstat(name.c_str(), &named) != 0 || identity_of(named) != *ours) return {};  // OWN-5
  if (::unlink(name.c_str()) == 0 || errno == ENOENT) return {};
  return error::system("remove " + name.string(), errno);
}

status remove_control_group(const fs::path& group) {
  struct statfs facts {};
  if (::statfs(group.c_str(), &facts) != 0)
    return errno == ENOENT ? status{} : status{error::system("look at " + group.string(), errno)};
  if (facts.f_type != CGROUP_SUPER_MAGIC && facts.f_type != CGROUP2_SUPER_MAGIC)
    return not_ours(group.string() + " is not a control group");
  if (::rmdir(group.c_str()) == 0 || errno == ENOENT) return {};
  return error::system("remove " + group.string(), errno);
}

// -- scratch --------------------------------------------------------------------------------------

result<scratch_folder> scratch_folder::make(const fs::path& parent, std::string_view prefix) {
  auto name = (parent / fmt::format("{}XXXXXX", prefix)).string();
  if (::mkdtemp(name.data()) == nullptr)
    return error::system("make a folder in " + parent.string(), errno);
  scratch_folder out{fs::path(name)};
  TROUPE_CHECK(make_owned(out.path_, {folder_kind::scratch, {}, {}}));
  return out;
}

scratch_folder& scratch_folder::operator=(scratch_folder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

scratch_folder::~scratch_folder() {
  if (!path_.empty()) static_cast<void>(remove_owned(path_, folder_kind::scratch));
}

}  // namespace troupe::io
