# Read by ctest behind the tests it has found: jobs that are given a share of what this machine has free
# measure that first, so nothing else of ours is at work beside them.
set_tests_properties(
  [==[test_apps:bench power: two jobs that are cut and held make the same steps, and nothing is left]==]
  [==[test_apps:bench power: two jobs make the same steps under a budget and none, nothing is left]==]
  [==[test_apps:bench power: two jobs whose paces are quotas make the same steps, and nothing is left]==]
  PROPERTIES RUN_SERIAL ON)
