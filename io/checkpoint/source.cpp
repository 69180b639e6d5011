// A folder as a source.
#include "io/checkpoint/source.hpp"

#include "io/checkpoint/format.hpp"

namespace troupe::io::checkpoint {

namespace {

class plain_folder final : public file_source {
 public:
  plain_folder(file_system& files, std::filesystem::path folder, pages behind)
      : files_(files), folder_(std::move(folder)), behind_(behind) {}

  result<std::shared_ptr<const source_file>> open(const std::string& name) const override {
    if (!is_file_name(name)) return error{errc::bad_data, "invalid file name"};
    return files_.open_source(folder_ / name, behind_);
  }

  unsigned reads_at_once() const override { return files_.reads_at_once(); }

 private:
  file_system& files_;
  std::filesystem::path folder_;
  pages behind_;
};

}  // namespace

std::shared_ptr<const file_source> folder_source(file_system& files, std::filesystem::path folder,
                                                 pages behind) {
  return std::make_shared<plain_folder>(files, std::move(folder), behind);
}

}  // namespace troupe::io::checkpoint
