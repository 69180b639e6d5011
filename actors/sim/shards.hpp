// What simulated ranks save and load: real shards of a small state, every word of which tells of
// which save it is.
#pragma once

#include <filesystem>
#include <memory>

#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/save.hpp"
#include "io/disk/disk.hpp"
#include "io/disk/slots.hpp"

namespace troupe::sim {

/// A rank's share of a save, from the first call to its vote. Errors: as of rank_save.
result<io::checkpoint::shard_facts> save_share(io::disk& d, const std::shared_ptr<io::slots>& ring,
                                               const std::filesystem::path& partial,
                                               const io::checkpoint::manifest_head& head,
                                               const io::checkpoint::rank_plan& plan);

/// What is wrong with a rank's share of a checkpoint: it cannot be read, or is of another save than
/// the manifest says.
status check_share(const io::checkpoint::reader& checkpoint, const io::checkpoint::rank_plan& plan);

}  // namespace troupe::sim
