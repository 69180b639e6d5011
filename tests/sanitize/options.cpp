// What the sanitizers' runtimes are told, linked into every executable of a sanitized build, so
// that a program finds its suppressions whoever starts it and from wherever. ASAN_OPTIONS,
// UBSAN_OPTIONS and TSAN_OPTIONS in the environment have the last word.
//
// 99 is the exit code of a run with a report: no command of ours ends with it.

extern "C" {

const char* __asan_default_options() {
  return "exitcode=99:detect_stack_use_after_return=1:check_initialization_order=1:"
         "strict_init_order=1:strict_string_checks=1:allocator_may_return_null=1";
}

const char* __lsan_default_options() {
  return "exitcode=99:print_suppressions=0:suppressions=" TROUPE_SOURCE_DIR
         "/tests/sanitize/lsan.supp";
}

const char* __ubsan_default_options() {
  return "exitcode=99:print_stacktrace=1";
}

const char* __tsan_default_options() {
  return "exitcode=99:second_deadlock_stack=1:history_size=4:print_suppressions=0:"
         "suppressions=" TROUPE_SOURCE_DIR "/tests/sanitize/tsan.supp";
}

}  // extern "C"
