# What a sanitized build needs of CAF beyond the package. Included after find_package(CAF); what to
# link is then ${caf}.
#
# 1. CAF's init_fun_factory.hpp binds a reference to *null when an actor is spawned without
#    arguments. A corrected copy is found before the original, so that no check is off anywhere.
# 2. ThreadSanitizer knows only the synchronisation that is compiled for it, and most of CAF's is in
#    its libraries. TROUPE_CAF_SOURCE names a folder with CAF's source (the preset tsan; fetched by
#    tests/sanitize/fetch_caf.sh), which is compiled here instead of linking the packaged libraries.
set(corrected ${CMAKE_BINARY_DIR}/corrected)
set(header caf/detail/init_fun_factory.hpp)
file(READ ${CAF_INCLUDE_DIR}/${header} original)
string(REGEX REPLACE "sizeof\\.\\.\\.\\(Ts\\) > 0[ \n]*\\?" "" text "${original}")
string(REGEX REPLACE "[ \n]*: nullptr}}" "}}" text "${text}")
if(text STREQUAL original)
  message(WARNING "${header} is not as it was in CAF 0.17.6: is the correction still needed?")
endif()
file(CONFIGURE OUTPUT ${corrected}/${header} CONTENT "${text}" @ONLY)
foreach(part core io openssl)
  set_property(TARGET CAF::${part} PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${corrected}
                                            ${CAF_INCLUDE_DIR})
endforeach()

set(TROUPE_CAF_SOURCE "" CACHE PATH "folder with CAF's source, to be compiled with the sanitizers")
if(TROUPE_CAF_SOURCE)
  if(NOT EXISTS ${TROUPE_CAF_SOURCE}/libcaf_core)
    message(STATUS "Fetching the source of CAF into ${TROUPE_CAF_SOURCE}")
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tests/sanitize/fetch_caf.sh ${TROUPE_CAF_SOURCE}
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp packaged REGEX "#define CAF_VERSION ")
  file(STRINGS ${TROUPE_CAF_SOURCE}/libcaf_core/caf/config.hpp fetched REGEX "#define CAF_VERSION ")
  if(NOT packaged STREQUAL fetched)
    message(FATAL_ERROR "${TROUPE_CAF_SOURCE} holds another version of CAF than is installed: "
                        "remove the folder, and it is fetched again")
  endif()
  find_package(OpenSSL REQUIRED)
  foreach(part core io openssl)
    file(GLOB_RECURSE caf_sources ${TROUPE_CAF_SOURCE}/libcaf_${part}/src/*.cpp)
    add_library(caf_${part} STATIC ${caf_sources})
    set_target_properties(caf_${part} PROPERTIES CXX_STANDARD 11)  # as Debian compiles it
    target_compile_options(caf_${part} PRIVATE -w)
    target_include_directories(caf_${part} SYSTEM PUBLIC ${corrected} ${CAF_INCLUDE_DIR})
  endforeach()
  # The program has an own tcp::try_accept (actors/cluster/accepting.cpp), to which a shared
  # library's gives way; so does an archive's, behind it, where both may stand.
  target_link_options(caf_io INTERFACE -Wl,-z,muldefs)
  target_link_libraries(caf_core PUBLIC Threads::Threads)
  target_link_libraries(caf_io PUBLIC caf_core)
  target_link_libraries(caf_openssl PUBLIC caf_io OpenSSL::SSL)
  set(caf caf_openssl)
endif()
