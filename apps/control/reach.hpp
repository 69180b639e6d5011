// What tools of persons share when they connect: as whom, and how they reach what is published
// at an address. For main threads: it waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <caf/scoped_actor.hpp>

#include "io/base/result.hpp"
#include "io/tls/keyring.hpp"

namespace troupe::apps {

/// This user's, as the kernel knows him.
std::string user_name();

/// What a key lets its holder be: an operator if it can, else a reader. Errors: permission.
result<tls::proof> person_by(const tls::job_key& key);

/// What a person looks for.
struct sought {
  std::string_view what;  ///< as people call it
  std::string_view hint;  ///< where it does not answer
  /// What makes a certificate of its kind for the place where it answers.
  std::string_view certifies;
};
inline constexpr sought a_cluster{"cluster",
                                  "is it running, and does it know your certificate or key?",
                                  "troupe certs DIR --node coordinator=HOST"};
inline constexpr sought a_power_budget{
    "power budget", "is it served there, and is the key that you have of this very budget?",
    "troupe certs DIR --budget NAME=HOST"};

/// The actor that is published there. Errors: unavailable.
result<caf::strong_actor_ptr> reach(caf::scoped_actor& self, const std::string& host, uint16_t port,
                                    std::chrono::milliseconds patience, const sought& it);

}  // namespace troupe::apps
