// The file of a job (power_job.hpp).
#include "apps/bench/power_job.hpp"

#include <unistd.h>

#include <fstream>

#include <fmt/format.h>

#include "apps/bench/job_launch.hpp"

namespace troupe::apps::power_bench {

namespace {

constexpr int batch_of_rank = 8;

}  // namespace

status write_job(const std::filesystem::path& folder, const watched_job& job) {
  TROUPE_CHECK(write_words(folder / "data.txt"));
  std::ofstream file(folder / (job.output + ".toml"));
  file << fmt::format(
      "[job]\nname = \"{0}\"\noutput = \"{1}/{2}\"\n"
      "[cluster]\nnodes = {3}\nthreads = 1\n[parallel]\ndata = {3}\n"
      "[model]\nfamily = \"llama\"\nlayers = 4\nhidden = 128\nheads = 4\n"
      "[data]\ntokenizer = \"bytes\"\npath = \"{1}/data.txt\"\n"
      "[train]\nsteps = {4}\nbatch = {5}\nseq_len = 128\nlr = 1e-3\n"
      "[checkpoint]\nevery = 0\n[log]\nformat = \"json\"\n"
      "[power]\nmodel_idle_w = {6}\nmodel_core_w = {7}\n",
      job.name, folder.string(), job.output, job.nodes, job.steps, job.nodes * batch_of_rank,
      job.idle_w, core_w);
  file.flush();
  if (!file) return error{errc::io, "write the job into " + folder.string()};
  return {};
}

std::string own_job_name() {
  return fmt::format("power-{}", ::getpid());
}

status check_modelled(const std::string& power_source, size_t steps) {
  if (power_source == "modelled") return {};
  constexpr size_t until_known = 20;  // steps: the first ones may come before a reading
  if (power_source.empty() && steps <= until_known) return {};
  if (power_source.empty())
    return error{errc::unavailable, "the job says no watts", "its log names its meters"};
  return error{errc::unavailable, "this machine measures its watts, which are not processors",
               "what a budget does to them is in log.jsonl of a job: power_w"};
}

}  // namespace troupe::apps::power_bench
