// FILE and --set, the same for every verb.
#include "apps/job_arguments.hpp"

namespace troupe::apps {

config::sources job_arguments::sources() const {
  return {file, config::process_environment(), sets};
}

void add_job_arguments(command* verb, job_arguments& into) {
  verb->add_option("FILE", into.file, "The job's TOML file")->required()->takes(offered::file);
  verb->add_option("--set", into.sets, "Set one key, e.g. --set train.lr=1e-3 (repeat as you like)")
      ->type_name("KEY=VALUE")
      ->takes(offered::setting)
      ->take_all()
      ->expected(1);
}

}  // namespace troupe::apps
