// In process through io/checkpoint, which is quicker than a `troupe ckpt verify` for each.
#include "tests/cluster/survivors.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/diff.hpp"
#include "io/checkpoint/reader.hpp"

namespace troupe::cluster_test {

namespace cp = io::checkpoint;

namespace {

void wrong(const std::string& text) {
  FAIL_CHECK(text);
}

}  // namespace

undisturbed train_undisturbed(const job_files& job, const std::vector<std::string>& sets) {
  const auto output = job / "undisturbed";
  undisturbed out;
  out.losses = job.losses(with(sets, {"job.output=" + output.string()}));
  out.checkpoints = output / "checkpoints";
  out.model = text_of(output / "model/model.safetensors");
  REQUIRE(complete_in(out.checkpoints).size() == out.losses.size());
  REQUIRE_FALSE(out.model.empty());
  return out;
}

std::vector<int> complete_in(const fs::path& folder) {
  std::vector<int> out;
  for (const auto& e : fs::directory_iterator(folder)) {
    const auto what = cp::parse_folder_name(e.path().filename().string());
    if (what && what->state == cp::folder_state::complete)
      out.push_back(static_cast<int>(what->step));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> leftovers_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(folder)) {
    const auto name = e.path().filename().string();
    const auto what = cp::parse_folder_name(name);
    if (what &&
        (what->state == cp::folder_state::partial || what->state == cp::folder_state::deleting))
      out.push_back(name);
  }
  return out;
}

std::set<int> all_acknowledged_in(const std::string& lines) {
  std::set<int> out;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_object() && j.value("saved_step", 0) > 0) out.insert(j.value("saved_step", 0));
  }
  return out;
}

int acknowledged_in(const std::string& lines) {
  const auto all = all_acknowledged_in(lines);
  return all.empty() ? 0 : *all.rbegin();
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  int out = 0;
  const auto end = text + std::strlen(text);
  const auto [at, wrong] = std::from_chars(text, end, out);
  INFO(variable, " is ", text);
  REQUIRE((wrong == std::errc() && at == end && out >= 0));
  return out;
}

int judge::look(const fs::path& folder, int acknowledged) {
  const auto steps = complete_in(folder);
  const int newest = steps.empty() ? 0 : steps.back();
  CHECK(newest >= acknowledged);  // SUR-2
  if (fs::is_symlink(folder / "latest")) CHECK(fs::exists(folder / "latest"));
  for (int step : steps) look_into(folder / cp::complete_name(static_cast<uint64_t>(step)), step);
  return newest;
}

void judge::look_into(const fs::path& checkpoint, int step, bool renamed) {
  CAPTURE(step);
  const auto r = cp::reader::open(checkpoint);
  if (!r) return wrong(render(r.error()));
  const auto report = r->verify({1, {}});
  if (!report) return wrong(render(report.error()));
  for (const auto& d : report->damages) FAIL_CHECK(cp::render(d));  // SUR-1
  ++verified_;
  CHECK(r->content().head.step == static_cast<uint64_t>(step));
  struct stat facts {};
  REQUIRE(stat(checkpoint.c_str(), &facts) == 0);
  if (known_.insert({checkpoint, facts.st_ino}).second && !renamed) compare(checkpoint, step);
}

void judge::compare(const fs::path& checkpoint, int step) {
  const auto same = truth_.checkpoints / cp::complete_name(static_cast<uint64_t>(step));
  REQUIRE(fs::exists(same));
  const auto a = cp::reader::open(checkpoint), b = cp::reader::open(same);
  REQUIRE((a && b));
  const auto tensors = cp::diff(*a, *b, {1, {}});
  if (!tensors) return wrong(render(tensors.error()));
  CHECK(tensors->size() > 0);
  for (const auto& t : *tensors)
    CHECK_MESSAGE(t.how == cp::comparison::equal, t.tensor, " of step ", step, ": ",
                  cp::to_string(t.how), ", ", t.differing, " of ", t.elements);  // SUR-3
  for (const auto& f : b->content().files) {  // what follows a shard's stream names its epoch
    if (!f.shard) continue;
    auto stream = [&](const fs::path& folder) {
      return text_of(folder / f.name).substr(0, f.stream_bytes);
    };
    const bool equal = stream(checkpoint) == stream(same);
    CHECK_MESSAGE(equal, f.name, " of step ", step, " differs");
  }
  ++compared_;
}

void judge::follow(const std::vector<nlohmann::json>& steps, int step, bool again) const {
  const int before = step;
  for (const auto& line : steps) {
    const int number = line["step"];
    if (again && number > before && number <= step) step = number - 1;
    CHECK(number == ++step);
    if (step > static_cast<int>(truth_.losses.size()))
      return wrong(fmt::format("there is a step {}", step));
    CHECK(line["loss"].get<double>() == truth_.losses[static_cast<size_t>(step) - 1]);
  }
}

}  // namespace troupe::cluster_test
