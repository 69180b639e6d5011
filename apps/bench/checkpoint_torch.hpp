// torch.save + fsync of as many bytes, by a Python of the machine, for comparison.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "apps/bench/checkpoint_process.hpp"

namespace troupe::apps::ckpt_bench {

/// A Python process that holds the same arrays.
class torch_rival {
 public:
  /// One save, as Python measured it.
  struct save_facts {
    double seconds = 0;       ///< training would stand still for all of it
    double processor_s = 0;   ///< of the Python process
    uint64_t peak_bytes = 0;  ///< in memory beyond the arrays, highest so far
  };

  /// Arrays of so many elements, float32. Error unavailable: no Python here has torch.
  static result<std::unique_ptr<torch_rival>> start(const std::vector<uint64_t>& elements);
  result<save_facts> save(const std::filesystem::path& name);

 private:
  explicit torch_rival(std::unique_ptr<child_process> python) : python_(std::move(python)) {}
  std::unique_ptr<child_process> python_;
};

}  // namespace troupe::apps::ckpt_bench
