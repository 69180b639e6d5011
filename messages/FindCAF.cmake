# FindCAF: the C++ Actor Framework 0.17, which ships no CMake package of its own.
#
# Defines the imported targets CAF::core, CAF::io and CAF::openssl, and CAF_VERSION
# (major.minor.patch) as caf/config.hpp has it. CAF_ROOT_DIR may name a prefix other than the system's.
include(FindPackageHandleStandardArgs)

find_path(CAF_INCLUDE_DIR caf/config.hpp HINTS ${CAF_ROOT_DIR}/include)
set(CAF_VERSION "")
if(CAF_INCLUDE_DIR)
  file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp caf_version_line
       REGEX "#define CAF_VERSION [0-9]+")
  if(caf_version_line MATCHES "CAF_VERSION ([0-9]+)")
    math(EXPR caf_major "${CMAKE_MATCH_1} / 10000")
    math(EXPR caf_minor "(${CMAKE_MATCH_1} / 100) % 100")
    math(EXPR caf_patch "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
  endif()
endif()

set(caf_libraries "")
foreach(part core io openssl)
  find_library(CAF_${part}_LIBRARY caf_${part} HINTS ${CAF_ROOT_DIR}/lib)
  list(APPEND caf_libraries CAF_${part}_LIBRARY)
endforeach()
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_INCLUDE_DIR ${caf_libraries}
                                  VERSION_VAR CAF_VERSION)

if(CAF_FOUND AND NOT TARGET CAF::core)
  foreach(part core io openssl)
    add_library(CAF::${part} UNKNOWN IMPORTED)
    set_target_properties(CAF::${part} PROPERTIES IMPORTED_LOCATION ${CAF_${part}_LIBRARY}
                                                  INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
  endforeach()
  set_property(TARGET CAF::io APPEND PROPERTY INTERFACE_LINK_LIBRARIES CAF::core)
  set_property(TARGET CAF::openssl APPEND PROPERTY INTERFACE_LINK_LIBRARIES CAF::io)
endif()
mark_as_advanced(CAF_INCLUDE_DIR ${caf_libraries})
