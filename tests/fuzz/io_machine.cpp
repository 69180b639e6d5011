// Any bytes as a file of the store of facts. What is found there can be kept and found again.
#include <stdlib.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "io/machine/facts.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

namespace {

/// A store of one file, as the seeds have it, gone with the process.
struct store_on_disk {
  io::fact_store store{make_folder(), "0123456789abcdef", "1.2.3", 1'800'000'000};
  std::filesystem::path file = store.folder / store.machine / "speed.json";

  store_on_disk() { std::filesystem::create_directories(file.parent_path()); }
  ~store_on_disk() {
    std::error_code ignored;
    std::filesystem::remove_all(store.folder, ignored);
  }

  static std::string make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-fuzz-XXXXXX").string();
    must(::mkdtemp(name.data()) != nullptr, "a folder can be made");
    return name;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const store_on_disk s;
  constexpr std::chrono::hours a_day{24};
  std::ofstream(s.file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto value = s.store.find("speed", a_day);
  if (!value) return 0;
  s.store.keep("speed", *value);
  if (std::filesystem::file_size(s.file) > io::most_fact_bytes) return 0;  // indented it is longer
  const auto again = s.store.find("speed", a_day);
  must(again && *again == *value, "what was found can be kept and found");
  return 0;
}
