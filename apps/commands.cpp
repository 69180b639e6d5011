// The program's command line as a whole: what it says of itself, and which verbs it has.
#include "apps/commands.hpp"

#include "apps/bench/bench.hpp"

namespace troupe::apps {

void add_all(shell& sh) {
  sh.app.description("Troupe trains large language models with a troupe of actors.");
  sh.app.require_subcommand(1);
  sh.app.footer(
      "Examples:\n"
      "  troupe config check configs/quickstart.toml\n"
      "  troupe config show configs/quickstart.toml --set train.steps=50\n"
      "  troupe config explain train.lr\n\n"
      "Settings come from: --set KEY=VALUE, then TROUPE_SECTION__KEY in the environment, then the "
      "file,\n"
      "then the defaults. Exit codes are those of sysexits.h (75: start it again, it continues);\n"
      "1 = training failed; 129, 130, 143 = a signal. All of them: docs/exit-codes.md.");
  add_up(sh);
  add_head(sh);
  add_node(sh);
  add_console(sh);
  add_control(sh);
  add_health(sh);
  add_doctor(sh);
  add_trace(sh);
  add_replay(sh);
  add_generate(sh);
  add_ckpt(sh);
  add_swap(sh);
  add_data(sh);
  add_sim(sh);
  add_power(sh);
  add_bench(sh);
  add_gpu(sh);
  add_config(sh);
  add_plan(sh);
  add_predict(sh);
  add_certs(sh);
  add_key(sh);
  add_completion(sh);
  add_limits(sh);
  add_version(sh);
  add_man(sh);  // knows the verbs before it
}

}  // namespace troupe::apps
