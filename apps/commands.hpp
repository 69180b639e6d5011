// The verbs of the program. A verb is one file, apps/<verb>.cpp, with a function that registers it:
//
//   void add_up(shell& sh) {
//     auto* verb = sh.app.add_subcommand("up", "Start a cluster and train");
//     auto arguments = std::make_shared<job_arguments>();  // and its options
//     on_run(sh, verb, [arguments]() -> result<int> { ... return 0; });
//   }
//
// To add one: declare its function here and name it in add_all (commands.cpp); help, completion,
// man pages and exit codes come from the registration.
#pragma once

#include "apps/shell.hpp"

namespace troupe::apps {

/// `troupe data prepare|inspect`: text to token files, and a look into them.
void add_data(shell& sh);
/// `troupe config check|show|explain|schema`: questions about a configuration.
void add_config(shell& sh);
/// `troupe plan`: the memory, work, traffic and time of each stage.
void add_plan(shell& sh);
/// `troupe predict train|ask|eval|split`: what a machine should do, learned from others.
void add_predict(shell& sh);
/// `troupe certs`: a certificate authority and certificates for a cluster.
void add_certs(shell& sh);
/// `troupe completion bash|zsh|fish`: completes verbs, options, their values and live names.
void add_completion(shell& sh);
/// `troupe man [VERB]`: man pages.
void add_man(shell& sh);
/// `troupe limits`: every bound of the program.
void add_limits(shell& sh);
/// `troupe version`: what this is and how it was built.
void add_version(shell& sh);

/// `troupe up`: starts a cluster and trains.
void add_up(shell& sh);
/// `troupe head`: stands by for the head of a cluster.
void add_head(shell& sh);
/// `troupe node`: one process of a cluster.
void add_node(shell& sh);
/// `troupe key`: hands out a part of the secret of a job or a power budget.
void add_key(shell& sh);
/// `troupe console`: speaks with a running cluster.
void add_console(shell& sh);
/// `troupe ps`, `troupe status`, `troupe send`: the same from scripts.
void add_control(shell& sh);
/// `troupe health`: what is wrong with a running cluster, and who.
void add_health(shell& sh);
/// `troupe doctor`: examines the machines of a running cluster, or this one.
void add_doctor(shell& sh);
/// `troupe trace live|record|...`: what actors say to each other.
void add_trace(shell& sh);
/// `troupe replay`: lets a recorded actor live again.
void add_replay(shell& sh);
/// `troupe sim`: simulates a cluster on virtual time.
void add_sim(shell& sh);
/// `troupe power sim|plan|serve|...`: more servers under one breaker, budgets that jobs share.
void add_power(shell& sh);
/// `troupe generate`: text from a checkpoint.
void add_generate(shell& sh);
/// `troupe ckpt ls|show|verify|diff|export|import|gc`: looks after checkpoints.
void add_ckpt(shell& sh);
/// `troupe swap show|gc`: looks at, and cleans up, state that lives on drives.
void add_swap(shell& sh);
/// `troupe gpu`: the GPUs of this machine.
void add_gpu(shell& sh);

/// Registers every verb, in the order of the help.
void add_all(shell& sh);

}  // namespace troupe::apps
