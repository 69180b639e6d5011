// `troupe power restore`: what is said, and through the built program of records without a group.
#include "apps/power/power_restore.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "gpu/controls/control_journal.hpp"
#include "gpu/controls/groups.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;
using gpu::controls::control_record;
using gpu::controls::record_verdict;
using gpu::controls::restored;

namespace {

restored found_record(record_verdict verdict, status outcome = {}) {
  return {"/run/troupe-7-0.control",
          control_record{gpu::controls::cgroup_version::two, "/sys/fs/cgroup/troupe-7-0", false,
                         "tiny", 1, 7, 3, "boot"},
          verdict, std::move(outcome)};
}

}  // namespace

TEST_CASE("SEA-2: a device is waited for until a lost head's ranks have ended in order") {
  CHECK(gpu::controls::control_place().seat_patience > defaults::orderly_end);
}

TEST_CASE("power restore: each change has a line with what became of it, or would") {
  CHECK(restore_text({}, false) ==
        "no dead process of this user has left a change on this machine; what another user's have "
        "left, root's too, that user restores\n");
  CHECK(restore_text({found_record(record_verdict::undo)}, false) ==
        "/sys/fs/cgroup/troupe-7-0  tiny, rank 1, process 7: undone\n");
  CHECK(restore_text({found_record(record_verdict::undo)}, true) ==
        "/sys/fs/cgroup/troupe-7-0  tiny, rank 1, process 7: would be undone\n");
  CHECK(restore_text({found_record(record_verdict::in_use)}, false) ==
        "/sys/fs/cgroup/troupe-7-0  tiny, rank 1, process 7: stays: its process lives\n");
  const restored junk{"/run/x.control", {}, {}, gpu::controls::no_control_record("it is none")};
  const auto text = restore_text({junk}, false);
  CHECK(text.starts_with("/run/x.control  stays: "));
  CHECK(is_left({found_record(record_verdict::undo), junk}));
  CHECK_FALSE(is_left({found_record(record_verdict::undo), found_record(record_verdict::in_use)}));
  const auto j =
      nlohmann::json::parse(restore_json({found_record(record_verdict::forget), junk}, true));
  CHECK(j["dry_run"] == true);
  CHECK(j["changes"][0]["verdict"] == "forget");
  CHECK(j["changes"][0]["error"].is_null());
  CHECK(j["changes"][1]["verdict"].is_null());
  CHECK(j["changes"][1]["error"].is_string());
}

TEST_CASE("power restore: without the right the line says what is needed") {
  const auto text = restore_text(
      {found_record(record_verdict::undo, gpu::controls::undo_refused("Permission denied"))},
      false);
  CHECK(text ==
        "/sys/fs/cgroup/troupe-7-0  tiny, rank 1, process 7: stays: what a dead process left "
        "cannot be undone: Permission denied\n"
        "  run `troupe power restore` with the rights that process had: as root or with its "
        "capabilities, in a container with /sys writable\n");
}

TEST_CASE("power restore: a setting is named with what was found") {
  auto of_package = found_record(record_verdict::undo);
  of_package.record->group.clear();
  of_package.record->kind = gpu::controls::setting_kind::rapl;
  of_package.record->settings = {
      {"/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", 165'000'000}};
  CHECK(restore_text({of_package}, false) ==
        "rapl /sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw  tiny, rank 1, "
        "process 7: undone\n");
  const auto j = nlohmann::json::parse(restore_json({of_package}, false));
  CHECK(j["changes"][0]["kind"] == "rapl");
  CHECK(j["changes"][0]["settings"][0]["found"] == 165'000'000);
  CHECK_FALSE(j["changes"][0].contains("group"));
}

TEST_CASE("power restore: a node that starts undoes what was left, whatever its job's control is") {
  namespace fs = std::filesystem;
  const scratch folder;
  auto left = *found_record(record_verdict::undo).record;
  left.group.clear();
  left.kind = gpu::controls::setting_kind::rapl;
  left.settings = {{"/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", 1}};
  left.boot = "another boot";  // so that nothing of this machine is set
  fs::create_directories(folder / "settings");
  fs::permissions(folder / "settings", fs::perms::owner_all);
  std::ofstream(folder / "settings" / "rapl.control") << gpu::controls::record_text(left);
  const auto node = run_in(folder.path,
                           "XDG_RUNTIME_DIR=\"$PWD\" TROUPE_CONTROLS=\"$PWD/settings\" "
                           "'" TROUPE_PROGRAM "' node --join 127.0.0.1:1 --name a");
  CHECK(node.code == 69);  // it has no key
  CHECK_FALSE(fs::exists(folder / "settings" / "rapl.control"));
}

TEST_CASE("power restore: void records go, foreign files stay, and a trial run changes nothing") {
  namespace fs = std::filesystem;
  const scratch folder;
  const auto troupe = [&](const std::string& words) {
    return run_in(folder.path,
                  "XDG_RUNTIME_DIR=\"$PWD\" TROUPE_CONTROLS=\"$PWD/settings\" '" TROUPE_PROGRAM
                  "' power restore " +
                      words)
        .code;
  };
  CHECK(troupe("") == 0);
  CHECK_FALSE(fs::exists(folder / "troupe"));
  const auto records = folder / "troupe" / "controls";
  fs::create_directories(records);
  fs::permissions(folder / "troupe", fs::perms::owner_all);
  const control_record earlier{gpu::controls::cgroup_version::two,
                               "/sys/fs/cgroup/troupe-7-0",
                               false,
                               "tiny",
                               1,
                               7,
                               3,
                               "another boot"};
  std::ofstream(records / "troupe-7-0.control") << gpu::controls::record_text(earlier);
  auto of_packages = earlier;
  of_packages.group.clear();
  of_packages.kind = gpu::controls::setting_kind::rapl;
  of_packages.settings = {{"/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", 1}};
  fs::create_directories(folder / "settings");
  fs::permissions(folder / "settings", fs::perms::owner_all);
  std::ofstream(folder / "settings" / "rapl.control") << gpu::controls::record_text(of_packages);
  CHECK(troupe("--dry-run") == 0);
  CHECK(fs::exists(records / "troupe-7-0.control"));
  std::ofstream(records / "junk.control") << "junk";
  CHECK(troupe("--json") == 1);
  CHECK_FALSE(fs::exists(records / "troupe-7-0.control"));
  CHECK_FALSE(fs::exists(folder / "settings" / "rapl.control"));
  CHECK(fs::exists(records / "junk.control"));
  CHECK(troupe("now") == 64);
}
