// The program: every verb is in its own file beside this one.
#include "apps/commands.hpp"

int main(int argc, char** argv) {
  troupe::apps::shell sh;
  troupe::apps::add_all(sh);
  return troupe::apps::run(sh, argc, argv);
}
