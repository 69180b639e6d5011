// FILE and --set, the same for every verb.
#include "apps/job_arguments.hpp"

#include "apps/talk.hpp"

namespace troupe::apps {

config::sources job_arguments::sources() const {
  return {file, config::process_environment(), sets};
}

result<config::loaded> job_arguments::load() const {
  TROUPE_TRY(loaded, config::load(sources()));
  for (const auto& warning : loaded.warnings) say("warning: " + warning);
  return loaded;
}

optional_job add_optional_job(command* verb, job_arguments& into) {
  optional_job out;
  out.file = verb->add_option("FILE", into.file, "The job's TOML file")->takes(offered::file);
  out.set = verb->add_option("--set", into.sets,
                             "Set one key, e.g. --set train.lr=1e-3 (repeat as you like)")
                ->type_name("KEY=VALUE")
                ->takes(offered::setting)
                ->take_all()
                ->expected(1);
  return out;
}

void add_job_arguments(command* verb, job_arguments& into) {
  add_optional_job(verb, into).file->required();
}

}  // namespace troupe::apps
