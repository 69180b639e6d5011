// Finding, making and removing the file.
#include "apps/control/job_secret.hpp"

#include <unistd.h>
#include <cerrno>

#include <fmt/format.h>

#include "apps/control/sign_folder.hpp"
#include "io/checkpoint/line.hpp"
#include "io/file.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps {

namespace fs = std::filesystem;

namespace {

fs::path secret_file(const fs::path& folder, const std::string& job, const fs::path& output) {
  const auto where = fs::weakly_canonical(fs::absolute(output)).string();
  return folder / fmt::format("{}-{:08x}.secret", job,
                              io::crc32c(std::as_bytes(std::span(where))));
}

/// What lies in our folder of signs, which is nobody else's; one that is gone is removed.
void remove_secret(const fs::path& file) {
  if (auto fd = io::open_read(file)) static_cast<void>(io::remove_own_file(file, fd->get()));
}

/// A whole file under its name, or none: a launcher that dies here leaves no half of a secret. One
/// that is there stays (SEC-3). The name it is made under is drawn: the folder may be one that
/// machines share, and two of them have processes of one number. False: one was there.
result<bool> put(const tls::job_key& key, const fs::path& file) {
  const auto making = file.string() + fmt::format(".{:016x}", io::checkpoint::draw_launch());
  TROUPE_CHECK(key.write(making));
  const int why = ::link(making.c_str(), file.c_str()) == 0 ? 0 : errno;
  remove_secret(making);
  if (why == 0 || why == EEXIST) return why == 0;
  return error::system(fmt::format("make {}", file.string()), why);
}

}  // namespace

result<job_secret> job_secret::open(const std::string& job, const fs::path& output) {
  TROUPE_TRY(folder, own_sign_folder());
  const auto file = secret_file(folder, job, output);
  auto known = tls::job_key::read(file);  // SEC-1
  if (known) return job_secret(file, std::move(*known), false);
  if (known.error().code != errc::not_found) return known.error();
  TROUPE_TRY(key, tls::job_key::make());
  TROUPE_TRY(made_here, put(key, file));
  TROUPE_TRY(first, tls::job_key::read(file));
  return job_secret(file, std::move(first), made_here);
}

status job_secret::check(const std::string& job, const fs::path& output) {
  TROUPE_TRY(folder, look_for_sign_folder());
  const auto known = tls::job_key::read(secret_file(folder, job, output));
  if (!known && known.error().code != errc::not_found) return known.error();
  return {};
}

void job_secret::job_is_done() {
  remove_secret(file_);
}

}  // namespace troupe::apps
