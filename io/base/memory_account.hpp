// Who holds how much of this process's memory, and how much they may hold together.
//
// Why: a job that swaps has a budget (swap.host_bytes), and the kernel's answer to a process that
// takes more than there is is a signal. So what is large is booked before it is allocated, under
// its holder's name, and refused with the table of holders where the budget is used up. What is
// small (messages, tables, stacks, code) has a share that the limit leaves out.
//
// One for a process, since that is what its workers share, and beside it one for each GPU that it
// uses, whose memory is another (swap.device_bytes); where nobody has set a limit it only counts.
// From any thread.
//
// Invariants
//   MAC-1  No booking makes what is held more than the least limit that stands; the refusal names
//     every holder and what it has.
//   MAC-2  A booking gives back what it booked, once, when it ends.
//   MAC-3  What is large and booked is the kernel's again when it is freed (mapped_pages.hpp).
//   MAC-4  What lies on a GPU is booked on that GPU's account alone, and what the host has for it
//     (page-locked twins) on the process's: neither limit is another's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

/// A budget of memory is used up: bytes wanted, for whom, held, of how many, by whom.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view, std::string_view,
                            std::string_view>
    memory_used_up{"memory_used_up", errc::no_memory,
                   "{} of memory for {} are not there: {} of {} are held ({})",
                   "raise swap.host_bytes, or lower train.micro_batch or train.seq_len"};

/// The same of a GPU's.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view, std::string_view,
                            std::string_view>
    device_memory_used_up{"device_memory_used_up", errc::no_memory,
                          "{} of a GPU's memory for {} are not there: {} of {} are held ({})",
                          "raise swap.device_bytes, or lower train.micro_batch or train.seq_len"};

/// Whose memory an account is of, and so which key raises its limit.
enum class memory_place : uint8_t { host, device };

/// What those throw that have no other way to say it.
struct memory_refused : std::bad_alloc {
  explicit memory_refused(error e) : why(std::move(e)) {}
  error why;
};

class memory_account {
 public:
  explicit memory_account(memory_place place = memory_place::host) noexcept : place_(place) {}

  class booking {
   public:
    booking() = default;
    booking(booking&& other) noexcept { *this = std::move(other); }
    booking& operator=(booking&& other) noexcept {
      std::swap(account_, other.account_);
      std::swap(holder_, other.holder_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~booking() {
      if (account_) account_->give_back(*holder_, bytes_);
    }

   private:
    friend class memory_account;
    memory_account* account_ = nullptr;  ///< null: nothing is booked
    const std::string* holder_ = nullptr;
    uint64_t bytes_ = 0;
  };
  struct holding {
    std::string holder;
    uint64_t bytes = 0, peak_bytes = 0;
  };
  struct table {
    uint64_t limit_bytes = 0;  ///< 0: there is none
    uint64_t held_bytes = 0, peak_bytes = 0;
    std::vector<holding> holders;  ///< who holds most comes first
  };

  /// Errors: memory_used_up; of a GPU's account device_memory_used_up.
  result<booking> book(std::string_view holder, uint64_t bytes);
  /// No more than this may be held as long as the answer lives.
  std::shared_ptr<void> limit_to(uint64_t bytes);
  table held() const;

 private:
  using holders = std::map<std::string, std::pair<uint64_t, uint64_t>, std::less<>>;
  void give_back(const std::string& holder, uint64_t bytes);
  table held_locked() const;

  const memory_place place_;
  mutable std::mutex mutex_;
  holders holders_;  ///< bytes and the most that they were; guarded by mutex_
  std::multiset<uint64_t> limits_;
  uint64_t held_ = 0, peak_ = 0;
};

/// Of this process.
memory_account& process_memory();
/// Of what this process has of the GPU with that number, from 0.
memory_account& device_memory(int number);

/// While it lives, what this thread allocates is held under this name.
class memory_holder {
 public:
  explicit memory_holder(const char* name) noexcept;
  ~memory_holder();
  memory_holder(const memory_holder&) = delete;
  memory_holder& operator=(const memory_holder&) = delete;
  /// The innermost; "others" where there is none.
  static const char* current() noexcept;

 private:
  const char* before_;
};

}  // namespace troupe::io
