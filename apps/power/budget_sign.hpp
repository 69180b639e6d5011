// Where a power budget of this user is to be found on this machine: `power serve` leaves a small
// file beside those of jobs (apps/control/sign_folder.hpp), jobs and tools read it.
//
//   <sign folder>/<pid>.power   {"budget": "row0", "pid": ..., "address": ..., "secret": ...,
//                                "children": ["gpt-a", ...]}
//
// A budget that has certificates has no secret. Children are left out where they are so many that
// the sign would not be read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/control/sign_folder.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// A budget that knows nobody without a certificate.
inline constexpr error_kind<std::string> certificate_wanted{
    "certificate_wanted", errc::permission, "{} has certificates, and none was given",
    "give --ca, --certificate and --key: `troupe certs DIR --operator NAME` makes one"};

/// A budget that is served here.
struct served_budget {
  std::string name;  ///< "row0"
  int pid = 0;
  std::string address;           ///< "127.0.0.1:4242"
  std::filesystem::path secret;  ///< the file with its secret; empty: it has certificates
  std::vector<std::string> children = {};  ///< empty: not known
};

/// Leaves the file for as long as it lives.
class budget_sign {
 public:
  /// A sign that cannot be put up is a remark, not a failure: HOST:PORT and a key still work.
  explicit budget_sign(const served_budget& here);

 private:
  sign_file file_;
};

/// The budgets of this user on this machine.
std::vector<served_budget> served_budgets();

/// The only one of them, or the one of that name; none of the name `but`. Errors: not_found; usage
/// where several fit.
result<served_budget> the_served_budget(const std::string& name, const std::string& but = {});

/// The only one, or of several the only one that has a child of that name; none of the name `but`.
/// Errors: the same.
result<served_budget> served_budget_of(const std::string& child, const std::string& but = {});

}  // namespace troupe::apps
