// `troupe ckpt`: the command line of what verbs.hpp does.
#include "apps/ckpt/live.hpp"
#include "apps/ckpt/verbs.hpp"
#include "apps/commands.hpp"
#include "apps/control/live_look.hpp"

#include <memory>

namespace troupe::apps {

namespace {

using ckpt::arguments;
using shared = std::shared_ptr<arguments>;

constexpr const char* about_path =
    "A checkpoint's folder, or a folder of checkpoints or of a run: then its newest complete one";

void common(command* verb, const shared& a) {
  verb->add_flag("--json", a->json, "As JSON on stdout");
}

void threads(command* verb, const shared& a) {
  verb->add_option("--threads", a->threads, "Threads that read; 0 = one a core, 4 to 8");
}

void breaking(command* verb, const shared& a) {
  verb->add_flag("--break-lock", a->break_lock,
                 "Take over a folder that a process on another host holds: only when it has ended");
}

void add_looking(shell& sh, command* verb, const shared& a) {
  auto* ls = verb->add_subcommand("ls", "List checkpoints, and what interrupted saves left");
  ls->add_option("DIR", a->path, "The folder of checkpoints, or the run's: runs/NAME")
      ->required()
      ->takes(offered::folder);
  common(ls, a);
  on_run(sh, ls, [a] { return ckpt::list(*a); });

  auto* show = verb->add_subcommand("show", "Say what a checkpoint holds, by its manifest");
  show->add_option("CKPT", a->path, about_path)->required()->takes(offered::folder);
  show->add_flag("--tensors", a->all, "Every tensor, too");
  common(show, a);
  on_run(sh, show, [a] { return ckpt::show(*a); });
}

void add_checking(shell& sh, command* verb, const shared& a) {
  auto* verify = verb->add_subcommand("verify", "Read every byte and name what is damaged");
  verify->add_option("CKPT", a->path, about_path)->required()->takes(offered::folder);
  threads(verify, a);
  common(verify, a);
  on_run(sh, verify, [a] { return ckpt::verify(*a); });

  auto* diff = verb->add_subcommand("diff", "Compare two checkpoints, whatever layouts wrote them");
  diff->add_option("A", a->path, about_path)->required()->takes(offered::folder);
  diff->add_option("B", a->other, "The other one")->required()->takes(offered::folder);
  diff->add_flag("--all", a->all, "Equal tensors, too");
  threads(diff, a);
  common(diff, a);
  on_run(sh, diff, [a] { return ckpt::diff(*a); });
}

void add_converting(shell& sh, command* verb, const shared& a) {
  auto* out = verb->add_subcommand("export", "Write the model as a Hugging Face folder");
  out->add_option("CKPT", a->path, about_path)->required()->takes(offered::folder);
  out->add_option("--safetensors", a->out, "The folder to write")
      ->required()
      ->takes(offered::folder);
  out->add_option("--dtype", a->dtype,
                  "float32 or bfloat16 (bf16); auto: as the folder the model began from")
      ->one_of({"auto", "float32", "bfloat16", "f32", "bf16"});
  out->add_option("--max-shard-mb", a->max_shard_mb, "Largest .safetensors file, in MB")
      ->within(uint64_t{1}, uint64_t{1} << 30);
  out->add_flag("--force", a->force, "Replace an earlier export that is there");
  threads(out, a);
  common(out, a);
  on_run(sh, out, [a] { return ckpt::export_model(*a); });

  auto* in = verb->add_subcommand("import", "Make a checkpoint of a Hugging Face folder: step 0");
  in->add_option("DIR", a->path, "Folder with config.json and .safetensors")
      ->required()
      ->takes(offered::folder);
  in->add_option("--out", a->out, "The folder of checkpoints to put it in")
      ->required()
      ->takes(offered::folder);
  in->add_option("--job", a->job, "The job's name; the folder's without it");
  in->add_option("--slot-mb", a->slot_mb, "Size of the shard's slots, in MiB")
      ->within(uint32_t{1}, uint32_t{1024});
  breaking(in, a);
  common(in, a);
  on_run(sh, in, [a] { return ckpt::import_model(*a); });
}

void add_holding(shell& sh, command* verb, const shared& a) {
  auto* hold = verb->add_subcommand("hold", "Keep a checkpoint, whatever retention's rules say");
  hold->add_option("CKPT", a->path, about_path)->required()->takes(offered::folder);
  hold->add_option("--reason", a->reason, "Why, in a few words: `ckpt ls` shows it")->required();
  hold->add_option("--by", a->by, "Who: a name to release it by");
  on_run(sh, hold, [a] { return ckpt::hold(*a); });

  auto* release = verb->add_subcommand("release", "End a hold");
  release->add_option("CKPT", a->path, about_path)->required()->takes(offered::folder);
  release->add_option("--by", a->by, "Whose");
  on_run(sh, release, [a] { return ckpt::release(*a); });
}

void add_collecting(shell& sh, command* verb, const shared& a) {
  auto* gc = verb->add_subcommand("gc", "Remove leftovers, and checkpoints that no rule keeps");
  gc->add_option("DIR", a->path, "The folder of checkpoints")->required()->takes(offered::folder);
  gc->add_option("--keep-last", a->rules.keep_last, "Keep so many of the newest");
  gc->add_option("--keep-every", a->rules.keep_every, "Keep steps that are multiples of it");
  gc->add_option("--keep-best", a->rules.keep_best, "Keep so many by validation loss");
  gc->add_option("--partial-age", a->rules.partial_age_s,
                 "Seconds after which an unfinished save counts as interrupted")
      ->within(int64_t{0}, int64_t{1} << 40);
  gc->add_flag("--aside", a->rules.aside, "Remove what was set aside, too");
  gc->add_flag("--dry-run", a->dry_run, "Only say what would be removed");
  breaking(gc, a);
  common(gc, a);
  on_run(sh, gc, [a] { return ckpt::collect(*a); });
}

void add_live(shell& sh, command* verb) {
  struct typed {
    connect_options connect;
    bool json = false, follow = false;
  };
  auto a = std::make_shared<typed>();
  auto* live_verb = verb->add_subcommand("live", "Show the checkpoints of a running cluster");
  live_verb->add_flag("--follow", a->follow, "Again every half second, until Ctrl-C");
  live_verb->add_flag("--json", a->json, "One JSON object a look");
  add_connect_options(live_verb, a->connect);
  on_run(sh, live_verb, [a] {
    return look(a->connect, {a->follow, a->json}, [a](const auto& view, int columns) {
      return a->json ? ckpt::live_json(view) : ckpt::live_text(view, columns);
    });
  });
}

}  // namespace

void add_ckpt(shell& sh) {
  auto* verb = sh.app.add_subcommand("ckpt", "List, verify, compare, convert checkpoints");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  troupe ckpt ls runs/quickstart/checkpoints\n"
      "  troupe ckpt verify runs/quickstart/checkpoints/step-00000500\n"
      "  troupe ckpt export runs/quickstart/checkpoints --safetensors model/\n"
      "  troupe ckpt live --follow\n"
      "  troupe ckpt hold runs/quickstart/checkpoints/step-00000300 --reason 'before the spike'\n"
      "  troupe ckpt gc runs/quickstart/checkpoints --keep-last 3 --dry-run\n\n"
      "Without a rule gc removes only leftovers. What is held stays. verify "
      "ends\nwith 65 where something is damaged, diff with 1 where something differs.");
  auto a = std::make_shared<arguments>();
  add_looking(sh, verb, a);
  add_checking(sh, verb, a);
  add_converting(sh, verb, a);
  add_holding(sh, verb, a);
  add_collecting(sh, verb, a);
  add_live(sh, verb);
}

}  // namespace troupe::apps
