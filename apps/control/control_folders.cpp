// Two folders; see control_folders.hpp.
#include "apps/control/control_folders.hpp"

#include <cstdlib>
#include <filesystem>

#include "apps/control/sign_folder.hpp"

namespace troupe::apps {

namespace {

gpu::controls::control_place controls_beside(const std::filesystem::path& signs) {
  gpu::controls::control_place at;
  at.records = signs / "controls";
  const char* named = std::getenv(settings_folder_variable);
  at.settings = named != nullptr && *named == '/' ? named : gpu::controls::settings_folder;
  const char* devices = std::getenv(devices_folder_variable);
  if (devices != nullptr && *devices == '/') at.devices = devices;
  return at;
}

}  // namespace

gpu::controls::control_place own_controls() {
  const auto signs = own_sign_folder();
  auto at = controls_beside(signs ? *signs : std::filesystem::path());
  if (!signs) at.records.clear();
  return at;
}

result<gpu::controls::control_place> look_for_controls() {
  TROUPE_TRY(signs, look_for_sign_folder());
  return controls_beside(signs);
}

}  // namespace troupe::apps
