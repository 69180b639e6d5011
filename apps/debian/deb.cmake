# The Debian package: `./troupe deb`, or in a build folder `ninja deb`, makes troupe_VERSION_ARCH.deb there.
#
# What the program links to is asked of dpkg-shlibdeps, so the package fits the Debian release that it
# was built on. What it opens while it runs (NVIDIA's driver, cuBLASLt, NCCL) is only suggested: without
# them it trains on the host. cpack builds nothing itself: a package made by bare `cpack` holds the
# program as it was last built.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the program alone, not the tests

install(FILES ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs/systemd/ DESTINATION lib/systemd/system
        FILES_MATCHING PATTERN "*.service")

set(TROUPE_MAINTAINER "Troupe maintainers <maintainers@troupe.invalid>" CACHE STRING
    "who answers for the Debian package: NAME <ADDRESS>")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${TROUPE_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains large language models with actors")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Troupe trains GPT-2, Llama, Mistral, Qwen2 and Qwen3 models over data x
pipeline parallel ranks, on processors or NVIDIA GPUs, from one TOML file and
without Python. It starts the processes of a cluster, checkpoints while it
trains, replaces nodes that are lost, and writes models that the transformers
library opens.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)  # the user of the systemd units
# The text of configs/quickstart.toml.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS golang-github-pierrec-lz4-dev)
# launch = "ssh"; the CUDA back end where it is built in.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "openssh-client, libcublas-13-0 | libcublas-12-9 | libcublas-12-8, libnccl2")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/apps/debian/postinst
                                       ${CMAKE_SOURCE_DIR}/apps/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)

# Without these two cpack would fail late, or make a package that depends on nothing.
find_program(TROUPE_SHLIBDEPS dpkg-shlibdeps)
find_program(TROUPE_FILE file)
if(TROUPE_SHLIBDEPS AND TROUPE_FILE)
  add_custom_target(deb COMMAND ${CMAKE_CPACK_COMMAND} --config ${CMAKE_BINARY_DIR}/CPackConfig.cmake
                                -B ${CMAKE_BINARY_DIR}
                    DEPENDS troupe USES_TERMINAL VERBATIM)
else()
  add_custom_target(deb COMMAND ${CMAKE_COMMAND} -E echo
                                "dpkg-shlibdeps or file not found: apt-get install dpkg-dev file; cmake ."
                    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endif()
