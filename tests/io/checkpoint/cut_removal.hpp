// What a power cut within a removal leaves: something that the program knows as its own (OWN-4).
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/folder_claim.hpp"
#include "io/disk/faulty_disk.hpp"

namespace troupe::io::checkpoint {

/// The point at which the first file is removed.
inline size_t removal_begins(const crash_store& store) {
  size_t point = 0;
  while (point <= store.points() && !store.text(point).starts_with("remove ")) ++point;
  return point;
}

/// Whether a partial folder is left that no start would remove.
inline bool leaves_a_stray(faulty_disk& d, const std::filesystem::path& folder) {
  const auto entries = d.list(folder);
  if (!entries) return false;
  for (const auto& e : *entries) {
    const auto name = parse_folder_name(e.name);
    if (name && name->state == folder_state::partial &&
        !d.check_removal(folder / e.name, claim_of(d, folder / e.name)))
      return true;
  }
  return false;
}

}  // namespace troupe::io::checkpoint
